//! Plans for kernels that are not running.
