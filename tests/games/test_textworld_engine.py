"""TextWorld as the reference: side by side with the simulator, and what happens when its process dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentic_rl.errors import ConfigError, EnvironmentFailure, GameFileError, MissingExtraError
from agentic_rl.games import TASK_TYPES, GameFile, discover, open_game
from agentic_rl.games.check import Comparison, Policy, SideBySide, random_policy, scripted
from agentic_rl.games.probes import PROBES, probe_scripts
from agentic_rl.games.textworld_engine import TextWorldEpisode

pytest.importorskip("textworld")
pytest.importorskip("alfworld")

RANDOM_STEPS = 15


def compare(work: list[tuple[GameFile, list[Policy]]]) -> Comparison:
    """Play games from the end of a list that others take from, too."""
    with SideBySide() as side_by_side:
        while work:
            entry, policies = work.pop()
            for policy in policies:
                side_by_side.play(entry.path, policy)
        return side_by_side.comparison


def size(entry: GameFile) -> int:
    world = entry.load().world
    return len(world.receptacles) + len(world.objects)


@pytest.mark.timeout(900)  # half a minute on two free cores, many on a busy machine
def test_twelve_games_two_of_each_type_play_alike_on_both_engines(sample_root: Path) -> None:
    """Random play with a tenth of garbage on each of them, and every probe on a game that it fits.

    They are the smallest games of the sample: the larger a game, the slower is TextWorld.
    """
    by_size = sorted(discover(sample_root), key=size)
    twelve = [entry for task in TASK_TYPES for entry in [one for one in by_size if one.task_type == task][:2]]
    assert len(twelve) == 12
    probes = {probe.__name__ for probe in PROBES}
    work: list[tuple[GameFile, list[Policy]]] = []
    for entry in sorted(twelve, key=size):
        scripts = probe_scripts(entry.load())
        chosen = sorted(probes & scripts.keys()) or ["start_of_game"]
        probes -= scripts.keys()
        # A reset costs TextWorld as much as ten steps, so random play goes on where a probe ends.
        wander = [
            random_policy(random.Random(f"{entry.game_id} {name}"), RANDOM_STEPS // len(chosen)) for name in chosen
        ]
        work.append((entry, [scripted(scripts[name], then) for name, then in zip(chosen, wander, strict=True)]))
    work.sort(key=lambda item: len(item[1]))  # the games with the most probes are taken first
    assert probes <= {"cool_at_first"}, "the sample has no game for these probes"
    with ThreadPoolExecutor(2) as pool:
        comparisons = list(pool.map(compare, (work, work)))
    for comparison in comparisons:
        assert not comparison.mismatches, "\n".join(map(str, comparison.mismatches[:3]))
    assert sum(comparison.steps for comparison in comparisons) > 350
    assert sum(comparison.textworld_s for comparison in comparisons) > 0


@pytest.fixture
def own_rules(sample_root: Path, tmp_path: Path) -> Path:
    """A real game whose domain has one comment more, so that the simulator cannot know it."""
    record = json.loads(min(sample_root.rglob("game.tw-pddl")).read_text())
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps({**record, "pddl_domain": record["pddl_domain"] + "\n; mine\n"}))
    return path


def test_a_process_that_is_killed_costs_its_episode_alone(
    own_rules: Path, sample_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = open_game(own_rules)  # the simulator does not know these rules
    assert isinstance(killed, TextWorldEpisode)
    open_game(own_rules).close()  # opened again, but said once
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "pddl_domain is not ALFWorld's; played by TextWorld instead" in told
    other = open_game(min(sample_root.rglob("game.tw-pddl")), "textworld")
    assert isinstance(other, TextWorldEpisode)
    assert killed.blocking
    assert other.blocking
    opening = other.reset()
    assert killed.reset() == opening
    assert killed.process_id is not None
    os.kill(killed.process_id, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match=r"game\.tw-pddl: the TextWorld process died \(exit code -9\)"):
        killed.step("look")
    with pytest.raises(EnvironmentFailure, match="has ended"):
        killed.step("look")
    assert other.step("look").observation.startswith("You are in the middle of a room.")
    assert other.reset() == opening
    pid = other.process_id
    for episode in (killed, other, other):
        episode.close()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(EnvironmentFailure, match="before the first reset"):
        other.step("look")


def test_a_game_that_textworld_cannot_load_fails_with_its_reason(own_rules: Path) -> None:
    record = json.loads(own_rules.read_text())
    own_rules.write_text(json.dumps({**record, "pddl_problem": record["pddl_problem"].replace("(:init", "(:nit", 1)}))
    with pytest.raises(EnvironmentFailure, match="TextWorld failed: "):
        open_game(own_rules, "textworld").reset()
    own_rules.write_text("{")
    with pytest.raises(GameFileError, match="not whole JSON"):
        open_game(own_rules, "textworld")


PLAYS_UNTIL = """
import sys, time
from agentic_rl.games import open_game
episode = open_game(sys.argv[1], "textworld")
episode.reset()
print(episode.process_id, flush=True)
{end}
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes through /proc")
def test_nothing_is_left_running_after_ctrl_c_or_an_error_or_a_kill(sample_root: Path) -> None:
    game = str(min(sample_root.rglob("game.tw-pddl")))
    endings = {"ctrl-c": "time.sleep(60)", "kill": "time.sleep(60)", "error": "raise RuntimeError"}
    parents = {
        name: subprocess.Popen(
            [sys.executable, "-c", PLAYS_UNTIL.format(end=end), game],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name, end in endings.items()
    }
    for name, parent in parents.items():
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if name == "ctrl-c":
            assert is_running(child)
            parent.send_signal(signal.SIGINT)
        elif name == "kill":
            parent.kill()
        assert parent.wait(timeout=30) != 0
        parent.stdout.close()
        assert ends(child), name


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def ends(pid: int, within_s: float = 20.0) -> bool:
    for _ in range(int(within_s / 0.05)):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def test_without_the_extra_textworld_is_refused_with_the_line_that_installs_it(
    own_rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_rl.games.textworld_engine.find_spec", lambda name: None)
    for engine in ("textworld", "simulator"):
        with pytest.raises(MissingExtraError, match="Run `uv sync --extra alfworld`"):
            open_game(own_rules, engine)


def test_an_unknown_engine_is_refused(own_rules: Path) -> None:
    with pytest.raises(ConfigError, match="simulator, textworld"):
        open_game(own_rules, "unity")


def test_the_rooms_of_games_import_without_textworld() -> None:
    script = (
        "import sys, agentic_rl.games, agentic_rl.cli; sys.exit('textworld' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
