using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

namespace Kvrt
{
    /// <summary>The native library, libkvrt.so.0.</summary>
    public static unsafe class Library
    {
        private static readonly Lazy<Version> Loaded = new Lazy<Version>(Load);

        /// <summary>
        /// Its version, which may be newer than this assembly. It loads the library, as everything here does at its first use: the one beside the
        /// application or in its package; else the file that the environment variable KVRT_LIBRARY names; else the system's.
        /// </summary>
        /// <exception cref="DllNotFoundException">There is no such library, or it cannot be loaded: the message has the reason.</exception>
        /// <exception cref="KvrtException">INCOMPATIBLE: it lays out a struct in another way than this assembly.</exception>
        public static Version Version => Loaded.Value;

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlopen(byte* name, int flags);

        [DllImport("libdl.so.2")]
        private static extern byte* dlerror();

        private static Version Load()
        {
            string path = Environment.GetEnvironmentVariable("KVRT_LIBRARY");
            try
            {
                Name(path);
                return Check();
            }
            catch (DllNotFoundException e)
            {
                string remedy = string.IsNullOrEmpty(path)
                    ? "Install libkvrt, or set KVRT_LIBRARY to the path of libkvrt.so.0"
                    : "KVRT_LIBRARY is \"" + path + "\": set KVRT_LIBRARY to the path of libkvrt.so.0, or unset it";
                throw new DllNotFoundException("kvrt: cannot load libkvrt.so.0: " + e.Message + ". " + remedy, e);
            }
        }

        /// <summary>Loads a library by its path. What is loaded answers to its soname, which is the name that DllImport asks for.</summary>
        private static void Name(string path)
        {
            const int Now = 2;
            if (string.IsNullOrEmpty(path)) return;
            using (Arena arena = new Arena())
            {
                UIntPtr size;
                dlerror();  // to have it: to look for it after dlopen would take that one's reason away
                if (dlopen(arena.Text(path + "\0", out size), Now) != IntPtr.Zero) return;
                byte* reason = dlerror();
                throw new DllNotFoundException(reason == null ? "dlopen gives no reason" : Utf8.Terminated(reason, 4096));
            }
        }

        // A method of its own: Mono looks for the library of a DllImport when it compiles the caller.
        [MethodImpl(MethodImplOptions.NoInlining)]
        private static Version Check()
        {
            uint abi = Native.kvrt_abi_version(), number = Native.kvrt_version();
            if (abi != Native.KVRT_ABI_VERSION) throw Differs("the ABI's version", Native.KVRT_ABI_VERSION, abi);
            foreach (string line in Native.Layout) Compare(line.Split(' '));
            return new Version((int)(number >> 16), (int)(number >> 8 & 255), (int)(number & 255));
        }

        /// <summary>`layout` is a struct, its size, and its fields with their offsets. A newer library may append fields.</summary>
        private static void Compare(string[] layout)
        {
            fixed (byte* name = Encoding.UTF8.GetBytes(layout[0] + "\0"))
            {
                uint size = Native.kvrt_struct_size(name);
                if (size < uint.Parse(layout[1])) throw Differs("sizeof " + layout[0], uint.Parse(layout[1]), size);
                for (int i = 2; i < layout.Length; i += 2)
                {
                    fixed (byte* field = Encoding.UTF8.GetBytes(layout[i] + "\0"))
                    {
                        uint offset = Native.kvrt_struct_offset(name, field);
                        if (offset != uint.Parse(layout[i + 1])) throw Differs(layout[0] + "." + layout[i], uint.Parse(layout[i + 1]), offset);
                    }
                }
            }
        }

        private static KvrtException Differs(string what, uint here, uint there)
        {
            return new KvrtException(Status.Incompatible, Detail.None, 0,
                "libkvrt.so.0: " + what + ": this assembly knows " + here + ", the library has " + there + ": use the assembly that came with it");
        }
    }
}
