using System;
using System.Globalization;
using System.Text;

namespace Kvrt
{
    /// <summary>Messages as JSON: netstandard2.0 has no writer of it.</summary>
    public static class Json
    {
        /// <summary>The message `{"role": role, "content": content}`.</summary>
        /// <param name="role">Who says it: "system", "user", "assistant", "tool".</param>
        /// <param name="content">What is said.</param>
        public static string Message(string role, string content)
        {
            if (role == null) throw new ArgumentNullException(nameof(role));
            if (content == null) throw new ArgumentNullException(nameof(content));
            return "{\"role\": " + Text(role) + ", \"content\": " + Text(content) + "}";
        }

        /// <summary>A string as JSON writes it, with its quotes.</summary>
        /// <param name="text">The string.</param>
        public static string Text(string text)
        {
            if (text == null) throw new ArgumentNullException(nameof(text));
            StringBuilder json = new StringBuilder(text.Length + 2).Append('"');
            foreach (char c in text)
            {
                if (c == '"' || c == '\\') json.Append('\\').Append(c);
                else if (c < ' ') json.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
                else json.Append(c);
            }
            return json.Append('"').ToString();
        }
    }
}
