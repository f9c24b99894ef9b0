//! rfc5681_congestion
