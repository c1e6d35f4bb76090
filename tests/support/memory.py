"""The peak memory of a program that a test starts."""

PEAK_MIB = (
    "next(int(line.split()[1]) / 1024 for line in open('/proc/self/status', encoding='utf-8') "
    "if line.startswith('VmHWM'))"
)
"""An expression for the program to evaluate, in MiB. `ru_maxrss` would count the process that forked it, too."""
