using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

namespace Kvrt
{
    /// <summary>Strings out of the library's UTF-8, decoded where it lies.</summary>
    internal static unsafe class Utf8
    {
        /// <summary>Refuses text that is no Unicode (half a surrogate pair) with an ArgumentException, where Encoding.UTF8 would change it.</summary>
        internal static readonly Encoding Strict = new UTF8Encoding(false, true);

        internal delegate int Writer(byte* buffer, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        internal static string Of(byte* text, UIntPtr size)
        {
            return size == UIntPtr.Zero ? "" : Encoding.UTF8.GetString(text, checked((int)size));
        }

        internal static string Terminated(byte* text, int capacity)
        {
            int size = 0;
            while (size < capacity && text[size] != 0) size++;
            return Of(text, (UIntPtr)size);
        }

        internal static uint[] Values(uint* values, uint count)
        {
            uint[] copy = new uint[Math.Min(count, 8)];
            for (int i = 0; i < copy.Length; i++) copy[i] = values[i];
            return copy;
        }

        internal static GroupKind[] Kinds(uint* values, uint count)
        {
            return Array.ConvertAll(Values(values, count), value => (GroupKind)value);
        }

        internal delegate T Taker<T>(byte* output, UIntPtr count);

        /// <summary>The text that a call with buffer, capacity and needed gives.</summary>
        internal static string Read(Writer write)
        {
            return Read(write, 1, Of);
        }

        /// <summary>What `take` makes of such an output, of units of `unit` bytes. It is asked for anew where it has grown meanwhile.</summary>
        internal static T Read<T>(Writer write, int unit, Taker<T> take)
        {
            const int Small = 1024;
            byte* small = stackalloc byte[Small];
            UIntPtr needed = UIntPtr.Zero;
            kvrt_error err = Failure.New();
            int status = write(small, (UIntPtr)(Small / unit), &needed, &err);
            if (status == Native.KVRT_OK) return take(small, needed);
            while (status == Native.KVRT_TOO_SMALL)
            {
                using (Arena arena = new Arena())
                {
                    byte* large = arena.Bytes((long)needed * unit);
                    status = write(large, needed, &needed, &err);
                    if (status == Native.KVRT_OK) return take(large, needed);
                }
            }
            throw Failure.Of(status, &err);
        }

        internal static byte[] Copy(byte* bytes, UIntPtr count)
        {
            byte[] copy = new byte[checked((int)count)];
            if (copy.Length > 0) Marshal.Copy((IntPtr)bytes, copy, 0, copy.Length);
            return copy;
        }

        internal static int[] Tokens(byte* tokens, UIntPtr count)
        {
            int[] copy = new int[checked((int)count)];
            if (copy.Length > 0) Marshal.Copy((IntPtr)tokens, copy, 0, copy.Length);
            return copy;
        }
    }

    /// <summary>What one call reads: text that is encoded once, into memory that the collector does not move; and handles that stay open.</summary>
    internal sealed unsafe class Arena : IDisposable
    {
        private readonly List<IntPtr> blocks = new List<IntPtr>();
        private readonly List<SafeHandle> held = new List<SafeHandle>();

        internal byte* Bytes(long size)
        {
            IntPtr block = Marshal.AllocHGlobal((IntPtr)Math.Max(size, 1));
            blocks.Add(block);
            return (byte*)block;
        }

        /// <summary>Null is NULL with size 0; "" is not NULL.</summary>
        internal byte* Text(string text, out UIntPtr size)
        {
            size = UIntPtr.Zero;
            if (text == null) return null;
            int count = Utf8.Strict.GetByteCount(text);
            byte* bytes = Bytes(count);
            fixed (char* characters = text) Utf8.Strict.GetBytes(characters, text.Length, bytes, count);
            size = (UIntPtr)count;
            return bytes;
        }

        /// <summary>Text that must be there. `parameter` is its name, for the exception.</summary>
        internal byte* Needed(string text, string parameter, out UIntPtr size)
        {
            return Text(text ?? throw new ArgumentNullException(parameter), out size);
        }

        /// <summary>The handle behind, which is not released before this arena is disposed.</summary>
        internal IntPtr Hold(SafeHandle handle)
        {
            bool added = false;
            handle.DangerousAddRef(ref added);
            held.Add(handle);
            return handle.DangerousGetHandle();
        }

        public void Dispose()
        {
            foreach (IntPtr block in blocks) Marshal.FreeHGlobal(block);
            foreach (SafeHandle handle in held) handle.DangerousRelease();
            blocks.Clear();
            held.Clear();
        }
    }
}
