//! rfc5961_blind_attacks
