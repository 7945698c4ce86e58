"""Two servers compared as black boxes: one that speculates, and one that does not.

Both are asked over HTTP, in the way of OpenAI's completions, for many texts after the same prompts, and the
samples are compared by the two-sample test of `specdecode.certify.same`. Nothing is known of either but what
it says, so a difference is found only if it is large enough to be seen in so many texts.

settings   a server, and how it is asked
asking     one server over HTTP: sent, waited for, sent again
answers    what an answer says, or what is wrong with it
turns      both servers, by turns, until that is enough or time is up
comparing  from what they said to a verdict

Needs the extra `server`:  pip install 'specdecode[server]'
"""

try:
    import httpx2  # noqa: F401 - asked for here, so that each part may take it for granted
except ImportError as error:
    raise ImportError("Servers are asked through httpx2: pip install 'specdecode[server]'") from error

from specdecode.adapters.servers.comparing import compare_servers
from specdecode.adapters.servers.settings import Server

__all__ = ["Server", "compare_servers"]
