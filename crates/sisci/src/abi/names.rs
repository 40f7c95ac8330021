//! The C functions that find nodes by name.

use std::ffi::{CStr, c_char};

use super::{Out, call};
use crate::code::{Code, Result};
use crate::query;

/// `DIS_MAX_NODEID_LIST`.
const IDS: usize = 64;

/// Node ids, ended by 0; what does not fit is left out.
fn find(name: *const c_char, ids: Out<[u32; IDS]>, adapters: &[Out<u32>]) -> Result<()> {
    ids.needed("nodeIds")?;
    if name.is_null() {
        return Err(Code::ILLEGAL_PARAMETER.because("adapterName is NULL"));
    }
    // SAFETY: the program gives a string that ends with NUL.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let (nodes, adapter) = query::nodes_by_name(&name)?;
    let mut list = [0; IDS];
    for (place, node) in list.iter_mut().take(IDS - 1).zip(nodes) {
        *place = node;
    }
    ids.put(list);
    adapters.iter().for_each(|into| into.put(adapter));
    Ok(())
}

export! {
    fn SCIGetNodeIdByAdapterName(
        name: *const c_char, ids: Out<[u32; IDS]>, adapter: Out<u32>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIGetNodeIdByAdapterName", error, (), || find(name, ids, &[adapter]))
    }

    fn SCIGetNodeInfoByAdapterName(
        name: *const c_char, adapter_no: Out<u32>, ids: Out<[u32; IDS]>, adapter: Out<u32>, _flags: u32,
        error: Out<Code>,
    ) {
        call("SCIGetNodeInfoByAdapterName", error, (), || find(name, ids, &[adapter_no, adapter]))
    }
}

#[cfg(test)]
mod tests {
    use super::IDS;

    #[test]
    fn the_list_is_as_long_as_the_header_says() {
        let header = include_str!("../../../../include/sisci/dis_types.h");
        assert!(header.lines().any(|line| line == format!("#define DIS_MAX_NODEID_LIST {IDS}")));
    }
}
