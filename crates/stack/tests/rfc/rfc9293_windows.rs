//! rfc9293_windows
