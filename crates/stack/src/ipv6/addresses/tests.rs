use super::*;

const MAC: MacAddr = MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn random() -> Random {
    Random::new([1, 2])
}

fn maker(ids: InterfaceId, checks: u8) -> Maker {
    Maker {
        mac: MAC,
        ids,
        secret: Sip::new([3, 4]),
        checks,
    }
}

fn host(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Addresses that are given and taken untried.
fn given(all: &[&str]) -> Addresses {
    let mut addresses = Addresses::default();
    for one in all {
        addresses.give((host(one), 64), 0, &mut random(), at(0));
    }
    addresses.poll(Duration::ZERO, at(0), &mut |_| {});
    addresses
}

fn prefix(preferred: u32, valid: u32) -> Prefix {
    Prefix {
        len: 64,
        on_link: true,
        autonomous: true,
        valid,
        preferred,
        prefix: host("2001:db8::"),
    }
}

fn due(addresses: &mut Addresses, now: Instant) -> Vec<Due> {
    let mut all = Vec::new();
    addresses.poll(Duration::from_secs(1), now, &mut |what| all.push(what));
    all
}

/// RFC 4291, appendix A: the example of 2.5.1's form.
#[test]
fn link_local_address_of_a_link_address_is_its_modified_eui_64() {
    let mut addresses = Addresses::default();
    addresses.make_link_local(maker(InterfaceId::LinkAddress, 0), &mut random(), at(0));
    let made: Vec<OwnAddress> = addresses.iter().collect();
    assert_eq!(made[0].address, host("fe80::211:22ff:fe33:4455"));
}

/// RFC 7217, 5: the identifier differs by prefix and by try, and is the same each time.
#[test]
fn opaque_identifier_is_of_prefix_and_try() {
    let maker = maker(InterfaceId::Opaque, 0);
    let id = |prefix: &str, retry| maker.address(host(prefix), retry).to_bits() as u64;
    assert_eq!(id("2001:db8::", 0), id("2001:db8::", 0));
    assert_ne!(id("2001:db8::", 0), id("2001:db8:0:1::", 0));
    assert_ne!(id("2001:db8::", 0), id("2001:db8::", 1));
}

/// RFC 4862, 5.4.
#[test]
fn address_is_tried_and_then_ours() {
    let mut addresses = Addresses::default();
    let address = host("2001:db8::1");
    addresses.give((address, 64), 2, &mut random(), at(0));
    assert!(addresses.is_tentative(address) && !addresses.is_ours(address));
    assert!(addresses.is_member(ipv6::solicited_node(address)));
    let first = addresses.next().unwrap();
    assert!(first <= at(1));
    let Due::Try(target, nonce) = due(&mut addresses, first)[0] else {
        panic!("no solicitation");
    };
    assert_eq!(target, address);
    assert!(addresses.is_own_nonce(target, Some(nonce)));
    assert_eq!(due(&mut addresses, first), []);
    let second = addresses.next().unwrap();
    assert_eq!(second, first + Duration::from_secs(1));
    assert!(matches!(due(&mut addresses, second)[..], [Due::Try(..)]));
    let third = addresses.next().unwrap();
    assert_eq!(due(&mut addresses, third), [Due::Ours(address)]);
    assert!(addresses.is_ours(address));
    assert_eq!(addresses.next(), None);
}

/// RFC 7217, 6: another identifier, three times; RFC 4862, 5.4.5: one that is made of the link address has no other.
#[test]
fn address_that_is_taken_is_made_anew_by_its_secret() {
    let maker_of = |ids| maker(ids, 1);
    let mut addresses = Addresses::default();
    let opaque = maker_of(InterfaceId::Opaque);
    addresses.take_prefix(&prefix(100, 100), opaque, &mut random(), at(0));
    for _ in 0..MOST_RETRIES {
        let now: Vec<OwnAddress> = addresses.iter().collect();
        assert!(addresses.is_taken(now[0].address, opaque, &mut random(), at(0)));
        let after: Vec<OwnAddress> = addresses.iter().collect();
        assert_eq!(after.len(), 1);
        assert_ne!(after[0].address, now[0].address);
        assert_eq!(after[0].state, AddressState::Tentative);
    }
    let last: Vec<OwnAddress> = addresses.iter().collect();
    assert!(addresses.is_taken(last[0].address, opaque, &mut random(), at(0)));
    let state = addresses.iter().next().unwrap().state;
    assert_eq!(state, AddressState::Duplicate);
    assert!(!addresses.is_taken(last[0].address, opaque, &mut random(), at(0)));
}

/// RFC 4862, 5.5.3, e.
#[test]
fn advertisement_leaves_an_address_two_hours() {
    let maker = maker(InterfaceId::Opaque, 0);
    let mut addresses = Addresses::default();
    let take = |addresses: &mut Addresses, valid: u32, now| {
        addresses.take_prefix(&prefix(valid.min(50), valid), maker, &mut random(), now);
        addresses.own[0].valid_until
    };
    // More than two hours are left: less than that is not believed.
    assert_eq!(take(&mut addresses, 90_000, at(0)), Some(at(90_000)));
    assert_eq!(take(&mut addresses, 60, at(100)), Some(at(7_300)));
    // Two hours or less are left: what is less is ignored, and what is more is taken.
    assert_eq!(take(&mut addresses, 60, at(200)), Some(at(7_300)));
    assert_eq!(take(&mut addresses, 7_150, at(200)), Some(at(7_350)));
    assert_eq!(take(&mut addresses, u32::MAX, at(300)), None);
    assert_eq!(take(&mut addresses, 8_000, at(400)), Some(at(8_400)));
}

/// RFC 4862, 5.5.4.
#[test]
fn address_is_deprecated_and_then_gone() {
    let maker = maker(InterfaceId::Opaque, 0);
    let mut addresses = Addresses::default();
    addresses.take_prefix(&prefix(10, 20), maker, &mut random(), at(0));
    let address = addresses.iter().next().unwrap().address;
    assert_eq!(due(&mut addresses, at(0)), [Due::Ours(address)]);
    assert_eq!(addresses.next(), Some(at(10)));
    due(&mut addresses, at(10));
    let state = addresses.iter().next().unwrap().state;
    assert_eq!(state, AddressState::Deprecated);
    assert!(addresses.is_ours(address));
    assert_eq!(due(&mut addresses, at(20)), [Due::Gone(address)]);
    assert_eq!(addresses.iter().count(), 0);
}

#[test]
fn prefixes_make_so_many_addresses_and_no_more() {
    let maker = maker(InterfaceId::Opaque, 1);
    let mut addresses = Addresses::default();
    for n in 0..100u128 {
        let many = Prefix {
            prefix: Ipv6Addr::from_bits(0x2001 << 112 | n << 64),
            ..prefix(10, 20)
        };
        addresses.take_prefix(&many, maker, &mut random(), at(0));
    }
    assert_eq!(addresses.iter().count(), MOST_MADE + 1);
}

/// RFC 6724, 10.1, as far as it goes with one interface.
#[test]
fn source_is_the_one_of_the_rfc_s_examples() {
    let all = |own: &[&str], to| given(own).source_for(host(to));
    let (global, local) = ("2001:db8:3::1", "fe80::1");
    // Rule 2: appropriate scope.
    assert_eq!(all(&[local, global], "2001:db8:1::1"), Some(host(global)));
    assert_eq!(all(&[global, local], "ff05::1"), Some(host(global)));
    assert_eq!(all(&[global, local], "fe80::2"), Some(host(local)));
    // Rule 1: the same address.
    assert_eq!(
        all(&["2001:db8:1::1", "2001:db8:2::1"], "2001:db8:2::1"),
        Some(host("2001:db8:2::1"))
    );
    // Rule 8: the longest prefix in common.
    assert_eq!(
        all(&["2001:db8:2::1", "2001:db8:1::2"], "2001:db8:1::9"),
        Some(host("2001:db8:1::2"))
    );
    // Rule 6: the label.
    assert_eq!(
        all(
            &["2002:c633:6401::d5e3:0:0:1", "2001:db8::2"],
            "2001:db8:9::1"
        ),
        Some(host("2001:db8::2"))
    );
    assert_eq!(all(&[], "2001:db8::1"), None);
}

/// RFC 6724, 5, rule 3.
#[test]
fn deprecated_address_is_no_source_where_there_is_another() {
    let mut addresses = given(&["2001:db8:1::1", "2001:db8:2::1"]);
    addresses.own[0].state = AddressState::Deprecated;
    let to = host("2001:db8:1::9");
    assert_eq!(addresses.source_for(to), Some(host("2001:db8:2::1")));
}
