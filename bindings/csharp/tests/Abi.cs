using System;
using System.Collections;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Kvrt.Tests
{
    /// <summary>
    /// The binding against include/kvrt.abi.json, which KVRT_ABI_TEXT has as lines: "function NAME PARAMETERS", "struct NAME SIZE", "field STRUCT
    /// NAME
    /// OFFSET SIZE TYPE", "constant ENUM NAME VALUE".
    /// </summary>
    internal static class Abi
    {
        private static readonly string[][] Lines =
            File.ReadAllLines(Environment.GetEnvironmentVariable("KVRT_ABI_TEXT")).Select(line => line.Split(' ')).ToArray();

        private static readonly Assembly Binding = typeof(Session).Assembly;
        private static readonly Type Native = Binding.GetType("Kvrt.Native", true);
        private const BindingFlags All = BindingFlags.Static | BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;

        // Functions that the binding has no use for.
        private static readonly string[] Unused =
        {
            "kvrt_last_error",  // every call has an error struct of its own
            "kvrt_runtime_retain", "kvrt_store_retain", "kvrt_cancel_retain"  // a SafeHandle is the one owner
        };

        private static readonly Dictionary<string, Type> EnumTypes = new Dictionary<string, Type>
        {
            { "KVRT", typeof(Status) }, { "KVRT_DETAIL", typeof(Detail) }, { "KVRT_EVENT", typeof(EventType) }, { "KVRT_REASON", typeof(Reason) },
            { "KVRT_REUSE", typeof(ReuseStopped) }, { "KVRT_LOG", typeof(LogLevel) }, { "KVRT_ISA", typeof(Isa) }, { "KVRT_DEVICE", typeof(Device) },
            { "KVRT_DETERMINISM", typeof(Determinism) }, { "KVRT_GEMM", typeof(Gemm) }, { "KVRT_KV", typeof(KvFormat) },
            { "KVRT_GROUP", typeof(GroupKind) }, { "KVRT_CACHE", typeof(Cache) }, { "KVRT_TEXT", typeof(TextFlags) }, { "KVRT_REPAIR", typeof(RepairOutcome) },
            { "KVRT_STATE", typeof(State) }, { "KVRT_FOREIGN_KV", typeof(ForeignKv) }, { "KVRT_LOGITS", typeof(Logits) },
            { "KVRT_SAMPLER", typeof(Sampler) }, { "KVRT_GRAMMAR", typeof(GrammarKind) }, { "KVRT_TOOL_CHOICE", typeof(ToolChoice) },
            { "KVRT_REPLY", typeof(Reply) }, { "KVRT_DURABILITY", typeof(Durability) }, { "KVRT_CODEC", typeof(Codec) }
        };

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlopen(string name, int flags);

        [DllImport("libdl.so.2")]
        private static extern IntPtr dlsym(IntPtr library, string name);

        private static IEnumerable<string[]> Of(string kind)
        {
            return Lines.Where(line => line[0] == kind);
        }

        private static string Camel(string name)
        {
            return string.Concat(name.Split('_').Select(word => char.ToUpperInvariant(word[0]) + word.Substring(1).ToLowerInvariant()));
        }

        /// <summary>Every function of kvrt.h is declared, is in the library, and is called by the binding.</summary>
        internal static void Functions()
        {
            Check.True(Library.Version >= new Version(0, 1, 0), "the library's version");
            IntPtr library = dlopen("libkvrt.so.0", 2);
            string source = string.Concat(Directory.GetFiles(Path.Combine(Rig.Source, "bindings/csharp/src"), "*.cs")
                .Where(file => Path.GetFileName(file) != "Raw.cs").Select(File.ReadAllText));
            foreach (string[] line in Of("function"))
            {
                MethodInfo method = Native.GetMethod(line[1], All);
                Check.True(method != null, line[1] + " is declared");
                Check.Equal(int.Parse(line[2]), method.GetParameters().Length, line[1] + "'s parameters");
                Check.True(dlsym(library, line[1]) != IntPtr.Zero, line[1] + " is in the library");
                Check.Equal(!Unused.Contains(line[1]), source.Contains("Native." + line[1] + "("), line[1] + " is called");
            }
            Check.Equal(Of("function").Count(), Native.GetMethods(All).Count(m => m.Name.StartsWith("kvrt_")), "number of functions");
        }

        internal static void Layout()
        {
            foreach (string[] line in Of("struct"))
            {
                Type type = Binding.GetType("Kvrt." + line[1], true);
                Check.Equal(int.Parse(line[2]), Marshal.SizeOf(type), "sizeof " + line[1]);
                string[][] fields = Of("field").Where(f => f[1] == line[1]).ToArray();
                Check.Equal(fields.Length, type.GetFields(All).Length, line[1] + "'s fields");
                foreach (string[] field in fields)
                    Check.Equal(int.Parse(field[3]), (int)Marshal.OffsetOf(type, field[2]), line[1] + "." + field[2]);
            }
        }

        internal static void Enums()
        {
            IEnumerable<string> names = Of("constant").Select(line => line[1]).Distinct().Where(name => name != "KVRT_INSPECT");
            Check.Same(names.OrderBy(n => n, StringComparer.Ordinal), EnumTypes.Keys.OrderBy(n => n, StringComparer.Ordinal), "the enums");
            foreach (KeyValuePair<string, Type> pair in EnumTypes)
            {
                Dictionary<string, int> expected = Of("constant").Where(line => line[1] == pair.Key)
                    .ToDictionary(line => Camel(line[2].Substring(pair.Key.Length + 1)), line => int.Parse(line[3]));
                if (pair.Key == "KVRT_TEXT") expected.Add("None", 0);
                Dictionary<string, int> found = Enum.GetNames(pair.Value).ToDictionary(name => name, name => (int)Enum.Parse(pair.Value, name));
                Check.Same(expected.OrderBy(e => e.Value).Select(e => e.Key + "=" + e.Value), found.OrderBy(e => e.Value)
                    .Select(e => e.Key + "=" + e.Value), pair.Key);
            }
        }

        /// <summary>Every field of each options struct is zero by default, and has a property that sets it.</summary>
        internal static void Options()
        {
            using (Rig rig = new Rig())
            using (Cancel cancel = new Cancel())
            {
                foreach (string name in Of("struct").Select(line => line[1]).Where(name => name.EndsWith("_options")))
                {
                    Type type = Binding.GetType("Kvrt." + Camel(name.Substring(5)), true);
                    byte[] defaults = Filled(type, null, null);
                    Check.Equal(0, defaults.Skip(4).Count(b => b != 0 && name != "kvrt_session_options"), name + ": defaults that are not 0");
                    foreach (string[] field in Of("field").Where(f => f[1] == name && Settable(f[2])))
                    {
                        PropertyInfo property = type.GetProperty(Camel(field[2]));
                        Check.True(property != null, type.Name + "." + Camel(field[2]));
                        byte[] raw = Filled(type, property, Value(property.PropertyType, rig, cancel));
                        int offset = int.Parse(field[3]), size = int.Parse(field[4]);
                        Check.True(raw.Skip(offset).Take(size).Any(b => b != 0), property.Name + " sets " + name + "." + field[2]);
                    }
                }
            }
        }

        private static bool Settable(string field)
        {
            bool length = field != "fd_size" && (field.EndsWith("_size") || field.EndsWith("_count"));
            return field != "reserved" && !length && !field.EndsWith("_user") && !field.EndsWith("_free");
        }

        private static object Value(Type type, Rig rig, Cancel cancel)
        {
            if (type == typeof(string)) return "x";
            if (type == typeof(Store)) return rig.Store;
            if (type == typeof(Cancel)) return cancel;
            if (type == typeof(Model)) return rig.Model;
            if (type == typeof(Action)) return (Action)(() => { });
            if (type == typeof(Action<LogLevel, string>)) return (Action<LogLevel, string>)((level, text) => { });
            if (type == typeof(IReadOnlyDictionary<int, float>)) return new Dictionary<int, float> { { 1, 1f } };
            if (type == typeof(IReadOnlyList<int>)) return new[] { 1 };
            if (type == typeof(IReadOnlyList<string>)) return new[] { "x" };
            return type.IsEnum ? Enum.ToObject(type, 1) : Convert.ChangeType(1, type);
        }

        /// <summary>The struct that the binding makes of the options, with one property set or none.</summary>
        private static byte[] Filled(Type type, PropertyInfo property, object value)
        {
            object options = Activator.CreateInstance(type);
            property?.SetValue(options, value);
            Type fill = Binding.GetType("Kvrt.Fill", true), arena = Binding.GetType("Kvrt.Arena", true), bell = Binding.GetType("Kvrt.Bell", true);
            MethodInfo make = fill.GetMethods(All).Single(m => m.Name == "Of" && m.GetParameters()[0].ParameterType == type);
            using (IDisposable memory = (IDisposable)Activator.CreateInstance(arena, true))
            {
                object[] arguments = make.GetParameters().Select(p =>
                    p.ParameterType == type ? options :
                    p.ParameterType == arena ? memory :
                    p.ParameterType == bell ? Activator.CreateInstance(bell, All, null, new object[] { null }, null) : null).ToArray();
                object raw = make.Invoke(null, arguments);
                foreach (IntPtr user in arguments.OfType<IntPtr>().Where(p => p != IntPtr.Zero)) GCHandle.FromIntPtr(user).Free();
                byte[] bytes = new byte[Marshal.SizeOf(raw.GetType())];
                GCHandle pin = GCHandle.Alloc(bytes, GCHandleType.Pinned);
                Marshal.StructureToPtr(raw, pin.AddrOfPinnedObject(), false);
                pin.Free();
                return bytes;
            }
        }

        /// <summary>Every field of each struct that comes out is a property, and has the field's value.</summary>
        internal static void Values()
        {
            Type[] types = Binding.GetTypes();
            string[] others = { "kvrt_error", "kvrt_event" };
            foreach (string name in Of("struct").Select(line => line[1]).Where(n => !n.EndsWith("_options")).Except(others))
            {
                Type raw = Binding.GetType("Kvrt." + name, true);
                ConstructorInfo make = types.Where(t => t.IsPublic).SelectMany(t => t.GetConstructors(All))
                    .Single(c => c.GetParameters().Length > 0 && c.GetParameters()[0].ParameterType == raw);
                string[][] fields = Of("field").Where(f => f[1] == name && f[2] != "struct_size").ToArray();
                byte[] bytes = Enumerable.Repeat((byte)0, Marshal.SizeOf(raw)).ToArray();
                for (int i = 0; i < fields.Length; i++) Put(bytes, fields[i], i + 1);
                GCHandle pin = GCHandle.Alloc(bytes, GCHandleType.Pinned);
                object value = Marshal.PtrToStructure(pin.AddrOfPinnedObject(), raw);
                pin.Free();
                object made = make.Invoke(make.GetParameters().Length == 1 ? new[] { value } : new[] { value, "" });
                for (int i = 0; i < fields.Length; i++)
                {
                    PropertyInfo property = made.GetType().GetProperty(Camel(fields[i][2]));
                    Check.True(property != null, made.GetType().Name + "." + Camel(fields[i][2]));
                    Check.Equal(Shown(i + 1, fields[i], property.PropertyType), Shown(property.GetValue(made)), name + "." + fields[i][2]);
                }
            }
        }

        private static void Put(byte[] bytes, string[] field, int value)
        {
            int offset = int.Parse(field[3]);
            byte[] put = field[5] == "double" ? BitConverter.GetBytes((double)value)
                : field[5] == "float" ? BitConverter.GetBytes((float)value)
                : field[5].StartsWith("char[") ? new[] { (byte)('a' + value) } : BitConverter.GetBytes(value);
            Array.Copy(put, 0, bytes, offset, put.Length);
        }

        private static string Shown(int value, string[] field, Type type)
        {
            if (type == typeof(string)) return ((char)('a' + value)).ToString();
            if (type == typeof(bool)) return "True";
            if (type.IsArray) return value + " 0 0 0 0 0 0 0";
            return value.ToString();
        }

        private static string Shown(object value)
        {
            if (value is Array) return string.Join(" ", ((Array)value).Cast<object>().Select(Shown));
            return value is Enum ? Convert.ToInt64(value).ToString() : Convert.ToString(value, System.Globalization.CultureInfo.InvariantCulture);
        }

        /// <summary>
        /// The runtime compiles every method: it has every type and member that the assembly names, whichever it was compiled against.
        /// </summary>
        internal static void EveryMember()
        {
            int methods = 0;
            foreach (Type type in Binding.GetTypes().Where(t => !t.ContainsGenericParameters))
            {
                foreach (MethodBase method in type.GetMethods(All | BindingFlags.DeclaredOnly).Concat<MethodBase>(type.GetConstructors(All)))
                {
                    if (method.IsAbstract || method.ContainsGenericParameters || (method.Attributes & MethodAttributes.PinvokeImpl) != 0) continue;
                    if (typeof(Delegate).IsAssignableFrom(type)) continue;
                    RuntimeHelpers.PrepareMethod(method.MethodHandle);
                    methods++;
                }
            }
            Check.True(methods > 300, methods + " methods");
        }
    }
}
