namespace Kvrt
{
    public sealed partial class SessionOptions
    {
        /// <summary>A copy for the session that ResumeOrOpen opens.</summary>
        internal SessionOptions With(Store store, string name)
        {
            SessionOptions copy = (SessionOptions)MemberwiseClone();
            copy.Store = store;
            if (string.IsNullOrEmpty(AutosaveName)) copy.AutosaveName = name;
            return copy;
        }
    }
}
