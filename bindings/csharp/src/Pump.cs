using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt
{
    /// <summary>A session's wake: completes the task that waits for its next event, and calls the host's Wake.</summary>
    internal sealed class Bell
    {
        private readonly Action wake;
        private TaskCompletionSource<bool> waiter;

        internal Bell(Action wake)
        {
            this.wake = wake;
        }

        /// <summary>A task that the next Ring or Fail completes. What awaits it runs on the thread pool, never inside the library's wake.</summary>
        internal Task Arm()
        {
            TaskCompletionSource<bool> fresh = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            Volatile.Write(ref waiter, fresh);
            return fresh.Task;
        }

        internal void Ring()
        {
            Volatile.Read(ref waiter)?.TrySetResult(true);
        }

        /// <summary>The library's wake.</summary>
        internal void Wake()
        {
            Ring();
            wake?.Invoke();
        }

        internal void Fail(Exception e)
        {
            Volatile.Read(ref waiter)?.TrySetException(e);
        }
    }

    /// <summary>
    /// Computes for all tasks that wait for sessions of one model, on one thread of the pool, and only while there is something to do.
    /// </summary>
    internal sealed class Pump
    {
        private const uint StepMs = 50;
        private readonly object gate = new object();
        private readonly HashSet<Bell> waiting = new HashSet<Bell>();
        private bool running, kicked;

        /// <summary>A task waits for an event that a step may give. `model` is its session's.</summary>
        internal void Kick(ModelHandle model, Bell bell)
        {
            ModelHandle own;
            lock (gate)
            {
                kicked = true;
                waiting.Add(bell);
                if (running) return;
                own = model.Retain();
                running = true;
            }
            ThreadPool.QueueUserWorkItem(_ => Run(own));
        }

        /// <summary>The task waits no more.</summary>
        internal void Forget(Bell bell)
        {
            lock (gate) waiting.Remove(bell);
        }

        private void Run(ModelHandle own)
        {
            using (own)
            {
                uint runnable = 0;
                Stopwatch watch = new Stopwatch();
                while (Continue(runnable))
                {
                    watch.Restart();
                    try
                    {
                        runnable = Model.Step(own, StepMs);
                        // Those that can go on wait for blocks that another call holds.
                        if (runnable > 0 && watch.ElapsedMilliseconds < 1) Thread.Sleep(1);
                    }
                    catch (Exception e)
                    {
                        runnable = 0;
                        Fail(e);
                    }
                }
            }
        }

        private bool Continue(uint runnable)
        {
            lock (gate)
            {
                running = kicked || runnable > 0;
                kicked = false;
                return running;
            }
        }

        private void Fail(Exception e)
        {
            Bell[] bells;
            lock (gate)
            {
                bells = new Bell[waiting.Count];
                waiting.CopyTo(bells);
                waiting.Clear();
            }
            foreach (Bell bell in bells) bell.Fail(e);
        }
    }
}
