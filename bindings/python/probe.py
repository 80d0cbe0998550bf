#!/usr/bin/env python3
"""A chat through ctypes alone, to hear early where the ABI hurts: probe.py LIBRARY MODEL MESSAGE..."""
import ctypes as c
import json
import sys

U32, U64, I32, F64, PTR, SIZE = c.c_uint32, c.c_uint64, c.c_int32, c.c_double, c.c_void_p, c.c_size_t
ABI = 0
OK, DONE, TOKEN = 0, 4, 1


def struct(name, **fields):  # each kvrt struct begins with struct_size, which is its own size
    cls = type(name, (c.Structure,), {"_fields_": [("struct_size", U32), *fields.items()]})
    cls.make = classmethod(lambda k, **v: k(struct_size=c.sizeof(k), **v))
    return cls


Error = struct("Error", status=I32, detail=I32, os_code=I32, message=c.c_char * 1008)
Report = struct("Report", reason=U32, prompt_tokens=U64, reused_memory=U64, reused_disk=U64, reused_remote=U64, prefilled=U64,
                generated=U64, reuse_stopped=U32, stop_tokens=U32, reuse_stopped_at=U64, seed=U64, queue_ms=F64, ttft_ms=F64,
                prefill_ms=F64, decode_ms=F64, kv_blocks=U64, kv_bytes=U64)
Event = struct("Event", type=U32, token=I32, reason=U32, position=U64, text=PTR, text_size=SIZE, logprob=F64, done=U64, total=U64,
               logits=PTR, logits_count=SIZE, report=c.POINTER(Report), entry=PTR)
GenerateOptions = struct("GenerateOptions", max_tokens=U32, temperature=c.c_float, top_k=U32, top_p=c.c_float, ignore_eos=U32, seed=U64,
                         stop_tokens=PTR, stop_token_count=SIZE, stop_strings=c.c_char_p, stop_strings_size=SIZE, emit_logits=U32,
                         no_generation_prompt=U32)
EventFn = c.CFUNCTYPE(I32, PTR, c.POINTER(Event))


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        if self.lib.kvrt_abi_version() != ABI:
            raise SystemExit(f"{path}: ABI {self.lib.kvrt_abi_version()}, this program knows {ABI}")
        self.lib.kvrt_status_name.restype = c.c_char_p

    def __getattr__(self, name):  # lib.session_append(...) calls kvrt_session_append and raises what it returns
        function = getattr(self.lib, "kvrt_" + name)

        def call(*args):
            status = function(*args)
            if status != OK:
                error = Error.make()
                self.lib.kvrt_last_error(c.byref(error))
                raise RuntimeError(f"{name}: {self.lib.kvrt_status_name(status).decode()}: {error.message.decode()}")

        return call


def main(library, model_path, *messages):
    kvrt = Library(library)
    runtime, model, chat = PTR(), PTR(), PTR()
    path = model_path.encode()
    kvrt.runtime_open(None, c.byref(runtime))
    kvrt.model_open(runtime, path, SIZE(len(path)), None, EventFn(), None, c.byref(model))
    kvrt.session_open(model, None, c.byref(chat))
    options = GenerateOptions.make(max_tokens=24)
    for number, message in enumerate(messages):
        data = json.dumps({"role": "user", "content": message}).encode()
        kvrt.session_append_message(chat, data, SIZE(len(data)), None)
        pieces, reports = [], []

        def on_event(_user, event):
            e = event.contents
            if e.type == TOKEN and e.text_size:
                pieces.append(c.string_at(e.text, e.text_size).decode())
            elif e.type == DONE:
                reports.append((e.reason, e.report.contents.generated))
            return 0

        report = Report.make()
        kvrt.session_generate(chat, c.byref(options), EventFn(on_event), None, c.byref(report))
        print(f"> {message}\n{''.join(pieces)!r}")
        reused = report.reused_memory + report.reused_disk + report.reused_remote
        print(f"  {report.prompt_tokens} tokens = {reused} reused + {report.prefilled} computed; {report.generated} generated")
        assert report.prompt_tokens == reused + report.prefilled and reports == [(report.reason, report.generated)]
        assert 0 < report.generated <= 24 and (number == 0 or reused > 0), "the second turn goes on from the first"
    kvrt.lib.kvrt_session_close(chat)
    kvrt.lib.kvrt_model_release(model)
    kvrt.lib.kvrt_runtime_release(runtime)


if __name__ == "__main__":
    main(*sys.argv[1:])
