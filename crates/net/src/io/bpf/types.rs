//! Reads the kernel's own types (BTF), to find the number with which a program calls one of its functions.
//!
//! `/sys/kernel/btf/vmlinux` has a header, then one record after the other, then their names. Records are numbered from
//! 1, by their position. The format is in `linux/btf.h`.

use std::io;

const FILE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// `name_off`, `info`, `size` or `type`
const RECORD: usize = 12;
const KIND_FUNCTION: u32 = 12;

/// Returns the number of the kernel's function `name`.
///
/// # Errors
/// The kernel has no such function, or does not publish its types (CONFIG_DEBUG_INFO_BTF).
pub(crate) fn function(name: &str) -> io::Result<u32> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("this kernel has no function {name}"));
    let types = std::fs::read(FILE)?;
    find(&types, name.as_bytes()).ok_or_else(missing)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Bytes behind a record of `kind` with `members` members; `None` for an unknown kind.
fn behind(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, lists of values of 64 bits, sections.
        4 | 5 | 15 | 19 => 12 * members,
        // Lists of values, arguments.
        6 | 13 => 8 * members,
        // Pointers, forward declarations, other names, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn find(types: &[u8], name: &[u8]) -> Option<u32> {
    let magic = u16::from_ne_bytes(*types.first_chunk()?);
    if magic != MAGIC {
        return None;
    }
    let at = |place| number(types, place).map(|value| value as usize);
    let (header, first, length) = (at(4)?, at(8)?, at(12)?);
    let (names, names_length) = (at(16)?, at(20)?);
    let names = types.get(header.checked_add(names)?..)?.get(..names_length)?;
    let records = types.get(header.checked_add(first)?..)?.get(..length)?;
    let is_named = |offset: u32| {
        let named = names.get(offset as usize..).unwrap_or_default();
        named.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut rest = records;
    let mut place = 1;
    while let (Some(name), Some(info)) = (number(rest, 0), number(rest, 4)) {
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == KIND_FUNCTION && is_named(name) {
            return Some(place);
        }
        rest = rest.get(RECORD + behind(kind, members)?..)?;
        place += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with an integer, a structure of two members, and functions of these names.
    fn types(functions: &[&str]) -> Vec<u8> {
        let mut names = vec![0];
        let mut records: Vec<u32> = vec![0, 1 << 24, 4, 32, 0, 4 << 24 | 2, 8, 0, 1, 0, 0, 1, 32];
        for function in functions {
            records.extend([names.len() as u32, KIND_FUNCTION << 24, 1]);
            names.extend(function.bytes().chain([0]));
        }
        let records: Vec<u8> = records.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let mut all = MAGIC.to_ne_bytes().to_vec();
        all.extend([1, 0]);
        for number in [24, 0, records.len(), records.len(), names.len()] {
            all.extend((number as u32).to_ne_bytes());
        }
        all.extend(records);
        all.extend(names);
        all
    }

    #[test]
    fn a_function_is_found_by_its_whole_name_and_numbered_by_its_place() {
        let types = types(&["read_it_all", "read", "read_it"]);
        assert_eq!(find(&types, b"read_it"), Some(5));
        assert_eq!(find(&types, b"read"), Some(4));
        assert_eq!(find(&types, b"rea"), None);
        assert_eq!(find(&types, b"write"), None);
    }

    #[test]
    fn types_that_are_cut_off_or_changed_have_no_such_function_and_do_no_harm() {
        let types = types(&["read"]);
        for length in 0..types.len() {
            find(&types[..length], b"read");
        }
        for place in 0..types.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = types.clone();
                changed[place] = value;
                find(&changed, b"read");
            }
        }
    }

    #[test]
    fn this_kernels_types_have_the_function_or_say_that_they_do_not() {
        match function("bpf_xdp_metadata_rx_vlan_tag") {
            Ok(number) => assert!(number > 0),
            Err(error) => println!("SKIPPED: {error}"),
        }
    }
}
