//! rfc7323_timestamps
