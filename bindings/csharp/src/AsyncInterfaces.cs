using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt
{
    // In the assembly for netstandard2.1 alone: netstandard2.0 has no IAsyncEnumerable. await foreach goes by the shape and needs neither.
    public sealed partial class Generation : IAsyncEnumerable<Event>
    {
        IAsyncEnumerator<Event> IAsyncEnumerable<Event>.GetAsyncEnumerator(CancellationToken cancellationToken)
        {
            return GetAsyncEnumerator(cancellationToken);
        }
    }

    public sealed partial class AsyncEvents : IAsyncEnumerator<Event>
    {
        ValueTask<bool> IAsyncEnumerator<Event>.MoveNextAsync()
        {
            return new ValueTask<bool>(MoveNextAsync());
        }

        ValueTask IAsyncDisposable.DisposeAsync()
        {
            return new ValueTask(DisposeAsync());
        }
    }
}
