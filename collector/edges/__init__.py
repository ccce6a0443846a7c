"""The only code that touches the machine: /proc, /sys, sockets and libraries of the driver."""
