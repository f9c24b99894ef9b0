//! rfc9293_interface
