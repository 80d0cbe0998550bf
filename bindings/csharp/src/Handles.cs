using System;
using System.Runtime.InteropServices;

namespace Kvrt
{
    /// <summary>An owner of a handle of kvrt.h. A call in progress keeps it: Dispose beside a call takes effect when that call returns.</summary>
    internal abstract class Handle : SafeHandle
    {
        protected Handle() : base(IntPtr.Zero, true)
        {
        }

        public override bool IsInvalid => handle == IntPtr.Zero;
    }

    internal static class Handles
    {
        /// <summary>The handle, for a call. One that is disposed throws here, as the marshaller would, but by its class's name.</summary>
        internal static T Live<T>(this T handle) where T : Handle
        {
            if (handle.IsClosed) throw new ObjectDisposedException(typeof(T).Name.Replace("Handle", ""));
            return handle;
        }
    }

    internal sealed class RuntimeHandle : Handle
    {
        protected override bool ReleaseHandle()
        {
            Native.kvrt_runtime_release(handle);
            return true;
        }
    }

    internal sealed class ModelHandle : Handle
    {
        protected override bool ReleaseHandle()
        {
            Native.kvrt_model_release(handle);
            return true;
        }

        /// <summary>A second owner, which outlives this one.</summary>
        internal ModelHandle Retain()
        {
            bool held = false;
            try
            {
                DangerousAddRef(ref held);
                ModelHandle second = new ModelHandle();
                Native.kvrt_model_retain(handle);
                second.SetHandle(handle);
                return second;
            }
            finally
            {
                if (held) DangerousRelease();
            }
        }
    }

    internal sealed class StoreHandle : Handle
    {
        protected override bool ReleaseHandle()
        {
            Native.kvrt_store_release(handle);
            return true;
        }
    }

    internal sealed class CancelHandle : Handle
    {
        protected override bool ReleaseHandle()
        {
            Native.kvrt_cancel_release(handle);
            return true;
        }
    }

    internal sealed class SessionHandle : Handle
    {
        /// <summary>The session's own owner of its model: what computes for its tasks needs it, though the Model may be disposed.</summary>
        internal ModelHandle Model;

        protected override bool ReleaseHandle()
        {
            Native.kvrt_session_close(handle);
            Model?.Dispose();
            return true;
        }
    }
}
