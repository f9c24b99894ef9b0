//! The counts as plain text, for the command `tollgate-qemu`: layers down, sizes across.
