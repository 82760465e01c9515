"""A party at work: there until told to stop, answering what it agreed to, coming back when the line is lost."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from limbeck.consortium.answering import agreed
from limbeck.consortium.party import PartyFolder
from limbeck.engines.flower.node import Node
from limbeck.engines.flower.parcels import LostLineError
from limbeck.engines.nursery import in_a_fresh_process
from limbeck.errors import LimbeckError
from limbeck.protocol.codec import decode
from limbeck.protocol.letters import Answer, Question

POLL = 0.5  # seconds between two looks for letters
MOST_TRIES = 30  # of a server that does not answer, before this party announces itself anew
LONGEST_WAIT = 10.0  # seconds before the line is tried again
LARGEST = 2**30  # bytes of a letter
TASK = "limbeck.consortium.answering:answer_in"
Say = Callable[[str], None]


class Attendance:
    """`Attendance(folder, say).run()` answers until `stop` is set."""

    def __init__(self, folder: PartyFolder, say: Say) -> None:
        self.folder, self.say = folder, say
        self.stop = threading.Event()

    def check(self) -> None:
        """Refuse to begin with settings, rows or a model that will not do."""
        settings, rows = self.folder.settings, self.folder.private()
        public = self.folder.public(False)
        if rows.x.shape[1:] != public.x.shape[1:]:
            raise LimbeckError(
                f"{settings.data} has rows of shape {rows.x.shape[1:]}, the public rows have {public.x.shape[1:]}"
            )
        from limbeck.models.rehearsal import rehearse

        rehearse(settings.model, rows.x.shape[1:], len(self.folder.join.classes))

    def run(self) -> None:
        wait, told = 1.0, ""
        with self.folder.alone():
            while not self.stop.is_set():
                try:
                    with self._node() as node:
                        self.say(f"connected to {self.folder.join.address}")
                        wait, told = 1.0, ""
                        self._attend(node)
                except LostLineError as error:
                    if str(error) != told:
                        told = str(error)
                        self.say(f"{told}; trying again")
                    self.stop.wait(wait)
                    wait = min(2 * wait, LONGEST_WAIT)

    def _node(self) -> Node:
        join = self.folder.join
        return Node(join.address, join.authority.encode(), self.folder.path / "key")

    def _attend(self, node: Node) -> None:
        away = 0
        while not self.stop.is_set():
            try:
                found = node.next_letter(LARGEST)
                away = 0
            except LostLineError as error:
                away += 1
                if not error.away or away > MOST_TRIES:
                    raise
                self.stop.wait(1.0)
                continue
            except LimbeckError as error:
                self.say(f"a message was dropped: {error}")
                continue
            if found is None:
                self.stop.wait(POLL)
            elif (told := self._answer(node, *found)) is not None:
                self._send(node, found[0], told)

    def _send(self, node: Node, message: Any, told: Answer) -> None:
        """What cannot be sent is kept: the server asks again, and gets the same answer."""
        try:
            node.answer(message, told.encode())
        except LostLineError as error:
            self.say(f"run {told.run}, turn {told.turn}: {error}; it is kept until the server asks again")

    def _answer(self, node: Node, message: Any, data: bytes) -> Answer | None:
        """The answer; None where there is none to give: silence."""
        try:
            question = Question.decode(data)
        except LimbeckError as error:
            self.say(f"a letter was dropped: {error}")
            return None
        blank = Answer(question.run, question.turn, question.party, question.hash)
        what = f"run {question.run}, turn {question.turn}"
        try:
            if not node.is_ours(message):
                raise LimbeckError("the server's run names another app than the Limbeck that is installed here")
            self._approve(question, what)
            told = self._in_a_process_of_its_own(question)
        except LostLineError as error:
            self.say(f"{what}: {error}")
            return None
        except LimbeckError as error:
            told = replace(blank, refusal=" ".join(str(error).split()))
        if told is None:
            self.say(f"{what}: the process that answers died")
            return None
        self.say(f"{what}: " + (f"refused: {told.refusal}" if told.refusal else f"answered, {len(told.reply)} bytes"))
        return told

    def _approve(self, question: Question, what: str) -> None:
        """Wait for a person, where the owner wants that; what was answered before needs no second word."""
        if not self.folder.settings.approve or self.folder.kept.answer(question.run, question.turn):
            return
        agreed(self.folder, question)
        request, _ = decode(question.request, LARGEST)
        asked = f"{question.terms.algorithm} {type(request).__name__}: {(type(request).__doc__ or '').splitlines()[0]}"
        waiting = self.folder.kept.request(question.run, question.turn, asked)
        if waiting.decision is None:
            self.say(f"{what} waits for a person: limbeck party approve {self.folder.path} {waiting.number}")
        while waiting.decision is None and not self.stop.wait(POLL):
            waiting = self.folder.kept.request(question.run, question.turn, asked)
        if waiting.decision != "approved":
            raise LimbeckError("a person at this party said no")

    def _in_a_process_of_its_own(self, question: Question) -> Answer | None:
        """What a child makes of the question: nothing stays in memory between questions, and a crash is its own."""
        work = self.folder.path / "work"
        work.mkdir(exist_ok=True)
        (work / "answer").unlink(missing_ok=True)
        (work / "question").write_bytes(question.encode())
        in_a_fresh_process(TASK, work, type(self.folder.settings.model).__module__)
        return Answer.decode((work / "answer").read_bytes()) if (work / "answer").exists() else None
