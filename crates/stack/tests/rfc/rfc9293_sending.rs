//! rfc9293_sending
