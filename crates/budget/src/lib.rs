//! Exact instruction counts by Callgrind, held against budgets.
