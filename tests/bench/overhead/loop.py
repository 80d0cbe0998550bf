"""The event loop of Python: as loop.c, by for and by a callback."""
import sys
import time

import kvrt

with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1], cache_dir=None) as model, model.open_session() as session:
    session.append([5, 6, 7, 8])
    for line in sys.stdin:
        way, count = line.split()
        options = kvrt.GenerateOptions(max_tokens=int(count), ignore_eos=True)
        session.truncate(4)
        events = tokens = size = 0

        def see(event: kvrt.Event) -> None:
            global events, tokens, size
            events += 1
            tokens += event.token
            size += len(event.text)

        begin = time.perf_counter_ns()
        if way == "next":
            for event in session.generate(options):
                see(event)
        else:
            session.generate(options, callback=see)
        print(time.perf_counter_ns() - begin, events, tokens, flush=True)
