//! rfc6298_timeout
