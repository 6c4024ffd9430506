//! Kernel objects.
