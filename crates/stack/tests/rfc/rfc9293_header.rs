//! rfc9293_header
