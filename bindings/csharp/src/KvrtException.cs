using System;

namespace Kvrt
{
    /// <summary>A call of kvrt failed. The message says what failed, where, what was expected and what was found.</summary>
    public sealed class KvrtException : Exception
    {
        internal KvrtException(Status status, Detail detail, int osCode, string message) : base(message)
        {
            Status = status;
            Detail = detail;
            OsCode = osCode;
        }

        /// <summary>The class of the failure. Treat one that you do not know as a failure.</summary>
        public Status Status { get; }

        /// <summary>A finer reason. Treat one that you do not know as Detail.None.</summary>
        public Detail Detail { get; }

        /// <summary>The system's errno, or SQLite's extended code; 0: none.</summary>
        public int OsCode { get; }
    }

    /// <summary>The kvrt_error of one call: it lies on the caller's stack, so no other thread and no finalizer writes it.</summary>
    internal static unsafe class Failure
    {
        internal static kvrt_error New()
        {
            return new kvrt_error { struct_size = (uint)sizeof(kvrt_error) };
        }

        internal static void Check(int status, kvrt_error* err)
        {
            if (status != Native.KVRT_OK) throw Of(status, err);
        }

        internal static KvrtException Of(int status, kvrt_error* err)
        {
            string message = Utf8.Terminated(err->message, 1008);
            if (message.Length == 0) message = Utf8.Terminated(Native.kvrt_status_name(status), 64);
            return new KvrtException((Status)status, (Detail)err->detail, err->os_code, message);
        }
    }
}
