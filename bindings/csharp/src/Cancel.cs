using System;
using System.Runtime.CompilerServices;

namespace Kvrt
{
    /// <summary>
    /// Ends every generation that was begun with it (GenerateOptions.Cancel): any number, of any sessions, from any thread. It fires once, for good:
    /// a
    /// generation that is begun with it later ends at once and computes nothing. It may be disposed before its generations end.
    /// </summary>
    public sealed unsafe class Cancel : IDisposable
    {
        private readonly CancelHandle handle;

        /// <summary>Makes a cancel that is not fired. It needs no runtime and no model.</summary>
        public Cancel()
        {
            _ = Library.Version;
            handle = Open();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]  // as Library.Check
        private static CancelHandle Open()
        {
            kvrt_error err = Failure.New();
            CancelHandle made;
            Failure.Check(Native.kvrt_cancel_open(out made, &err), &err);
            return made;
        }

        internal CancelHandle Handle => handle.Live();

        /// <summary>Whether it was fired.</summary>
        public bool Fired
        {
            [MethodImpl(MethodImplOptions.NoInlining)]  // as Library.Check
            get => Native.kvrt_cancel_fired(Handle) != 0;
        }

        /// <summary>Fires it. Any thread, also in callbacks, but not in Log and Wake. It waits for no step.</summary>
        [MethodImpl(MethodImplOptions.NoInlining)]  // as Library.Check
        public void Fire()
        {
            Native.kvrt_cancel_fire(Handle);
        }

        /// <summary>Gives the handle back, fired or not.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
