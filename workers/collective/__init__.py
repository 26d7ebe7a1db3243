"""What the processes of one launch must agree on before they register: world rank 0's bootstrap port, and the launch's token.

    from workers.collective import Launch, agree

    launch = agree(Launch(own_port, launch_token()), nnodes=2)      # after init_process_group, before registering

`agree` imports torch only when there are several nodes. Errors are sentences; whoever gets one must not register.
"""

from .agreement import Group, agree, agree_on_port
from .errors import NobodyTold, NotAgreed, NotInitialised
from .message import Launch

__all__ = ["Group", "Launch", "NobodyTold", "NotAgreed", "NotInitialised", "agree", "agree_on_port"]
