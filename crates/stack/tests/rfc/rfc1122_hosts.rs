//! rfc1122_hosts
