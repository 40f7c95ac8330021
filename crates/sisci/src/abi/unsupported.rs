//! The C functions that need hardware: they exist so that programs which name them link.

use std::ffi::{c_char, c_void};

use super::{Out, call};
use crate::callback::{DmaFn, InterruptFn, RemoteSegmentFn};
use crate::code::{Code, Result};
use crate::descriptor::Descriptor;
use crate::dma::{DmaQueue, State};
use crate::handle::Handle;
use crate::interrupt::LocalInterrupt;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

/// `sci_device_t`, of which there are none.
#[derive(Debug)]
pub struct Device;

/// `sci_address_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Address {
    node: u16,
    offset_high: u16,
    offset_low: u32,
}

fn not_there(name: &str, error: Out<Code>, why: &str) {
    call(name, error, (), || Result::<()>::Err(Code::NOT_IMPLEMENTED.because(why)));
}

export! {
    fn SCIGetCSRRegister(_sd: Handle<Descriptor>, _local_adapter_no: u32, _node_id: u32, _offset: u32, _flags: u32, error: Out<Code>) -> u32 {
        not_there("SCIGetCSRRegister", error, "there is no adapter whose registers could be reached");
        0
    }

    fn SCISetCSRRegister(_sd: Handle<Descriptor>, _local_adapter_no: u32, _node_id: u32, _offset: u32, _value: u32, _flags: u32, error: Out<Code>) {
        not_there("SCISetCSRRegister", error, "there is no adapter whose registers could be reached");
    }

    fn SCIGetLocalCSR(_sd: Handle<Descriptor>, _local_adapter_no: u32, _offset: u32, _flags: u32, error: Out<Code>) -> u32 {
        not_there("SCIGetLocalCSR", error, "there is no adapter whose registers could be reached");
        0
    }

    fn SCISetLocalCSR(_sd: Handle<Descriptor>, _local_adapter_no: u32, _offset: u32, _value: u32, _flags: u32, error: Out<Code>) {
        not_there("SCISetLocalCSR", error, "there is no adapter whose registers could be reached");
    }

    fn SCIConnectSCISpace(_sd: Handle<Descriptor>, _local_adapter_no: u32, _segment: Out<Handle<RemoteSegment>>, _address: Address, _size: usize, _flags: u32, error: Out<Code>) {
        not_there("SCIConnectSCISpace", error, "there is no physical address space of SCI");
    }

    fn SCIRegisterInterruptFlag(_local_adapter_no: u32, _interrupt: Out<Handle<LocalInterrupt>>, _segment: Handle<LocalSegment>, _offset: u32, _callback: Option<InterruptFn>, _callback_arg: *mut c_void, _flags: u32, error: Out<Code>) {
        not_there("SCIRegisterInterruptFlag", error, "conditional interrupts need an adapter that sees loads and stores");
    }

    fn SCIEnableConditionalInterrupt(_interrupt: Handle<LocalInterrupt>, _flags: u32, error: Out<Code>) {
        not_there("SCIEnableConditionalInterrupt", error, "conditional interrupts need an adapter that sees loads and stores");
    }

    fn SCIDisableConditionalInterrupt(_interrupt: Handle<LocalInterrupt>, _flags: u32, error: Out<Code>) {
        not_there("SCIDisableConditionalInterrupt", error, "conditional interrupts need an adapter that sees loads and stores");
    }

    fn SCIGetConditionalInterruptTrigCounter(_interrupt: Handle<LocalInterrupt>, _interrupt_trig_counter: Out<u32>, _flags: u32, error: Out<Code>) {
        not_there("SCIGetConditionalInterruptTrigCounter", error, "conditional interrupts need an adapter that sees loads and stores");
    }

    fn SCICreateNamedInterrupt(_sd: Handle<Descriptor>, _interrupt: Out<Handle<LocalInterrupt>>, _local_adapter_no: u32, _name: *mut c_char, _callback: Option<InterruptFn>, _callback_arg: *mut c_void, _flags: u32, error: Out<Code>) {
        not_there("SCICreateNamedInterrupt", error, "interrupts have numbers here: SCICreateInterrupt");
    }

    fn SCIphDmaEnqueue(_queue: Handle<DmaQueue>, _size: u32, _local_bus_address: u64, _remote_node_id: u32, _remote_high_address: u32, _remote_low_address: u32, _flags: u32, error: Out<Code>) {
        not_there("SCIphDmaEnqueue", error, "there are no physical addresses to copy from and to");
    }

    fn SCIphDmaStart(_queue: Handle<DmaQueue>, _callback: Option<DmaFn>, _callback_arg: *mut c_void, _flags: u32, error: Out<Code>) -> State {
        not_there("SCIphDmaStart", error, "there are no physical addresses to copy from and to");
        State::Error
    }

    fn SCIBorrowDevice(_sd: Handle<Descriptor>, _device: Out<Handle<Device>>, _fabric_device_id: u64, _flags: u32, error: Out<Code>) {
        not_there("SCIBorrowDevice", error, "there are no devices in shared memory");
    }

    fn SCIReturnDevice(_device: Handle<Device>, _flags: u32, error: Out<Code>) {
        not_there("SCIReturnDevice", error, "there are no devices in shared memory");
    }

    fn SCIReleaseExclusiveBorrow(_device: Handle<Device>, _flags: u32, error: Out<Code>) {
        not_there("SCIReleaseExclusiveBorrow", error, "there are no devices in shared memory");
    }

    fn SCIConnectDeviceSegment(_device: Handle<Device>, _segment: Out<Handle<RemoteSegment>>, _segment_id: u32, _memory_type: u32, _callback: Option<RemoteSegmentFn>, _callback_arg: *mut c_void, _flags: u32, error: Out<Code>) {
        not_there("SCIConnectDeviceSegment", error, "there are no devices in shared memory");
    }

    fn SCIConnectDeviceSegmentPath(_device: Handle<Device>, _segment: Out<Handle<RemoteSegment>>, _segment_id: u32, _memory_type: u32, _local_adapter_no: u32, _callback: Option<RemoteSegmentFn>, _callback_arg: *mut c_void, _flags: u32, error: Out<Code>) {
        not_there("SCIConnectDeviceSegmentPath", error, "there are no devices in shared memory");
    }

    fn SCIConnectDeviceMemory(_sd: Handle<Descriptor>, _segment: Out<Handle<RemoteSegment>>, _local_adapter_no: u32, _device: Handle<Device>, _segment_no: u32, _timeout: u32, _flags: u32, error: Out<Code>) {
        not_there("SCIConnectDeviceMemory", error, "there are no devices in shared memory");
    }

    fn SCICreateDeviceSegment(_device: Handle<Device>, _segment_id: u32, _size: usize, _memory_type: u32, _access_hints: u32, _flags: u32, error: Out<Code>) {
        not_there("SCICreateDeviceSegment", error, "there are no devices in shared memory");
    }

    fn SCIMapLocalSegmentForDevice(_segment: Handle<LocalSegment>, _local_adapter_no: u32, _device: Handle<Device>, _address: Out<u64>, _offset: usize, _size: usize, _flags: u32, error: Out<Code>) {
        not_there("SCIMapLocalSegmentForDevice", error, "there are no devices in shared memory");
    }

    fn SCIUnmapLocalSegmentForDevice(_segment: Handle<LocalSegment>, _local_adapter_no: u32, _device: Handle<Device>, _flags: u32, error: Out<Code>) {
        not_there("SCIUnmapLocalSegmentForDevice", error, "there are no devices in shared memory");
    }

    fn SCIMapRemoteSegmentForDevice(_segment: Handle<RemoteSegment>, _device: Handle<Device>, _address: Out<u64>, _offset: usize, _size: usize, _flags: u32, error: Out<Code>) {
        not_there("SCIMapRemoteSegmentForDevice", error, "there are no devices in shared memory");
    }

    fn SCIUnmapRemoteSegmentForDevice(_segment: Handle<RemoteSegment>, _device: Handle<Device>, _flags: u32, error: Out<Code>) {
        not_there("SCIUnmapRemoteSegmentForDevice", error, "there are no devices in shared memory");
    }

    fn SCIGetDeviceList(_sd: Handle<Descriptor>, _fabric_device_ids: Out<u32>, _length: usize, _filter: *mut c_void, _flags: u32, error: Out<Code>) -> usize {
        not_there("SCIGetDeviceList", error, "there are no devices in shared memory");
        0
    }

    fn SCIGetFabricDeviceId(_device: Handle<Device>) -> u32 {
        not_there("SCIGetFabricDeviceId", Out(std::ptr::null_mut()), "there are no devices in shared memory");
        0
    }

    fn SCIRegisterPCIeRequester(_sd: Handle<Descriptor>, _local_adapter_no: u32, _bus: u32, _devfn: u32, _flags: u32, error: Out<Code>) {
        not_there("SCIRegisterPCIeRequester", error, "there are no devices in shared memory");
    }

    fn SCIUnregisterPCIeRequester(_sd: Handle<Descriptor>, _local_adapter_no: u32, _bus: u32, _devfn: u32, _flags: u32, error: Out<Code>) {
        not_there("SCIUnregisterPCIeRequester", error, "there are no devices in shared memory");
    }
}
