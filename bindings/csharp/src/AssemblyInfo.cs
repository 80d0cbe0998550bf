using System.Reflection;

[assembly: AssemblyTitle("Kvrt")]
[assembly: AssemblyDescription("LLM inference in your process, with conversations that survive it")]
[assembly: AssemblyVersion("0.1.0.0")]
[assembly: AssemblyFileVersion("0.1.0.0")]
