//! rfc6528_sequence_numbers
