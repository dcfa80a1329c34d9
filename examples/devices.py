# SPDX-License-Identifier: MIT
"""Two CPU devices from Python with ctypes alone: python3 devices.py path/to/libtolk.so"""
import ctypes
import sys

N = 1000
SOURCE = b"""tolk.uop 1
%0 = const index 1000
%1 = param f32 (%0) {slot=0, name="y"}
%2 = param f32 (%0) {slot=1, name="x"}
%3 = range index (%0) {axis=0, kind=global}
%4 = index f32 (%2, %3)
%5 = load f32 (%4)
%6 = mul f32 (%5, %5)
%7 = index f32 (%1, %3)
%8 = store void (%7, %6)
%9 = end void (%8, %3)
%10 = sink void (%9) {name="square"}
"""


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("node", ctypes.c_uint32), ("line", ctypes.c_uint32),
                ("column", ctypes.c_uint32), ("msg", ctypes.c_char * 240)]


tolk = ctypes.CDLL(sys.argv[1])
tolk.tolk_ctx_destroy.restype = tolk.tolk_buffer_unref.restype = None
tolk.tolk_args_destroy.restype = tolk.tolk_event_destroy.restype = None
err = Error()


def call(name, *args):
    """A function of the library that returns a status: its error is an exception."""
    if getattr(tolk, name)(*args, ctypes.byref(err)):
        raise RuntimeError(f"{name}: {err.msg.decode()}")


def made(name, *args):
    """The same for one that makes an object: what it made."""
    out = ctypes.c_void_p()
    call(name, *args, ctypes.byref(out))
    return out


ctx = made("tolk_ctx_create", None)  # TOLK_CPU_DEVICES says how many CPU devices there are
count = tolk.tolk_device_count(ctx)
devices = [made("tolk_device_open", ctx, b"CPU:%d" % i) for i in range(min(2, count))]
x = (ctypes.c_float * N)(*range(N))
y = (ctypes.c_float * N)()
value = None
for device in devices:
    before, value = value, made("tolk_alloc_f32", device, ctypes.c_size_t(N))
    if before:  # on another device: the copy waits for what wrote it
        call("tolk_buffer_copy", value, before)
        tolk.tolk_buffer_unref(before)
    else:
        call("tolk_buffer_copyin", value, ctypes.c_size_t(0), x, ctypes.c_size_t(ctypes.sizeof(x)))
    result = made("tolk_alloc_f32", device, ctypes.c_size_t(N))
    args = made("tolk_args_create", ctx)
    call("tolk_args_buffer", args, ctypes.c_uint32(0), result)
    call("tolk_args_buffer", args, ctypes.c_uint32(1), value)
    call("tolk_run", device, b"square", SOURCE, args, None, None, ctypes.c_size_t(0))
    tolk.tolk_args_destroy(args)
    tolk.tolk_buffer_unref(value)
    value = result
call("tolk_buffer_copyout", value, ctypes.c_size_t(0), y, ctypes.c_size_t(ctypes.sizeof(y)))
print(f"{len(devices)} devices: 3 becomes {y[3]:g}")
tolk.tolk_buffer_unref(value)
tolk.tolk_ctx_destroy(ctx)
