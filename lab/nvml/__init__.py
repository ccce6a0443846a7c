"""Our own C ``libnvidia-ml.so.1``: a make-believe driver under the real binding.

It proves that the binding, the child program and the sources do what they should with what a driver
says, late, wrongly or not at all. It proves nothing about drivers: the width of the byte counters,
the unit behind "KB", whether headers count, latencies and privileges stay open until a real GPU
answers (``make gpu-check``).
"""
