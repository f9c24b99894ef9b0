//! Synthetic slices with known answers.
