import pytest

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Acknowledgement
from limbeck.protocol.parties import Replies


def test_replies_come_in_party_order() -> None:
    first, second = Acknowledgement(), Acknowledgement()
    replies = Replies({7: second, 2: first}, missing=(3,))
    assert [id(reply) for reply in replies] == [id(first), id(second)]
    assert len(replies) == 2


def test_too_few_replies_are_an_error_that_names_the_silent() -> None:
    replies = Replies({0: Acknowledgement()}, missing=(1, 2))
    assert replies.at_least(1) is replies
    with pytest.raises(LimbeckError, match=r"1 of 3 parties sent a valid reply, at least 2 must \(silent: 1, 2\)"):
        replies.at_least(2)


def test_too_few_replies_are_an_error_that_states_what_was_wrong_with_those_rejected() -> None:
    replies = Replies({0: Acknowledgement()}, missing=(1, 2), rejected={2: "votes is not finite"})
    with pytest.raises(LimbeckError, match=r"at least 2 must \(silent: 1; party 2: votes is not finite\)"):
        replies.at_least(2)
