"""What only a real GPU can settle about NVML: asked on the machine, answered with figures."""
