using System;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt
{
    /// <summary>The callback of one call. What it throws stops the call, and comes out of it with its stack.</summary>
    internal sealed unsafe class Watch : IDisposable
    {
        // One delegate for all calls, which lives as long as the process: no thunk is collected while the library may call it.
        private static readonly kvrt_event_fn Thunk = Receive;
        internal static readonly IntPtr Function = Marshal.GetFunctionPointerForDelegate(Thunk);

        private readonly Action<Event> each;
        private readonly CancellationToken token;
        private GCHandle self;
        private ExceptionDispatchInfo failure;

        internal Watch(Action<Event> each, CancellationToken token)
        {
            this.each = each;
            this.token = token;
            self = GCHandle.Alloc(this);
        }

        internal IntPtr User => GCHandle.ToIntPtr(self);

        private static int Receive(IntPtr user, kvrt_event* @event)
        {
            Watch watch = (Watch)GCHandle.FromIntPtr(user).Target;
            try
            {
                watch.token.ThrowIfCancellationRequested();
                watch.each?.Invoke(new Event(@event));
                return 0;
            }
            catch (Exception e)
            {
                if (e is ThreadAbortException) Thread.ResetAbort();  // Mono: else it would go on from here, through the library
                watch.failure = ExceptionDispatchInfo.Capture(e);
                return 1;
            }
        }

        /// <summary>Comes after the call, whatever its status.</summary>
        internal void Check(int status, kvrt_error* err)
        {
            failure?.Throw();
            if (status == Native.KVRT_CANCELLED) token.ThrowIfCancellationRequested();
            Failure.Check(status, err);
        }

        public void Dispose()
        {
            self.Free();
        }
    }

    /// <summary>The callbacks that the library keeps. Their user pointer is a GCHandle, which the library frees with user_free.</summary>
    internal static unsafe class Kept
    {
        private static readonly kvrt_log_fn LogThunk = OnLog;
        private static readonly kvrt_wake_fn WakeThunk = OnWake;
        private static readonly kvrt_free_fn FreeThunk = OnFree;
        internal static readonly IntPtr Log = Marshal.GetFunctionPointerForDelegate(LogThunk);
        internal static readonly IntPtr Wake = Marshal.GetFunctionPointerForDelegate(WakeThunk);
        internal static readonly IntPtr UserFree = Marshal.GetFunctionPointerForDelegate(FreeThunk);

        private static readonly bool Mono = Type.GetType("Mono.Runtime") != null;
        [ThreadStatic] private static bool reachable;

        [DllImport("libc.so.6")]
        private static extern int sigprocmask(int how, ulong* set, ulong* old);

        /// <summary>
        /// Mono stops every thread that has run managed code by a real-time signal, at each collection, and waits until it stands. The library's own
        /// threads block all signals. So the first callback on such a thread lets these in; .NET does without.
        /// </summary>
        private static void Arrive()
        {
            const int Unblock = 1, Words = 16, FirstRealTime = 34;
            if (!Mono || reachable) return;
            ulong* set = stackalloc ulong[Words];
            for (int i = 0; i < Words; i++) set[i] = 0;
            set[0] = ulong.MaxValue << (FirstRealTime - 1);
            sigprocmask(Unblock, set, null);
            reachable = true;
        }

        internal static IntPtr Keep(object target)
        {
            return GCHandle.ToIntPtr(GCHandle.Alloc(target));
        }

        /// <summary>For the caller of a call that took the pointer and failed.</summary>
        internal static void Free(IntPtr user)
        {
            GCHandle.FromIntPtr(user).Free();
        }

        private static void OnFree(IntPtr user)
        {
            Arrive();
            Free(user);
        }

        private static void OnLog(IntPtr user, int level, byte* text, UIntPtr size)
        {
            Arrive();
            try
            {
                ((Action<LogLevel, string>)GCHandle.FromIntPtr(user).Target)((LogLevel)level, Utf8.Of(text, size));
            }
            catch (Exception e)
            {
                Unobserved(e);
            }
        }

        private static void OnWake(IntPtr user)
        {
            Arrive();
            try
            {
                ((Bell)GCHandle.FromIntPtr(user).Target).Wake();
            }
            catch (Exception e)
            {
                Unobserved(e);
            }
        }

        /// <summary>Nobody waits for this callback: its exception goes where those of forgotten tasks go.</summary>
        private static void Unobserved(Exception e)
        {
            Task.FromException(e);
        }
    }
}
