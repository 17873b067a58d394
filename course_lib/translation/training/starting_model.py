"""Begin with what another run has learnt: its weights, not random ones, and its vocabulary, not a new one.

So a model goes on with another recipe, or with a little text of one kind after much of another.
"""

from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.vocabularies import BidirectionalSubwords
from course_lib.translation.training.checkpoints.trained_run import TrainedRun, load_trained_run
from course_lib.translation.training.run_folder import RunFolder

#: What two models have to have in common for the weights of one to be of use to the other.
_SHAPE = ("layers", "d_model", "heads", "d_ff", "norm_first", "tie_embeddings")


def starting_model(config: RunConfig) -> TrainedRun | None:
    """Read the run that `training.init_from` names; None where the weights are to be random.

    Raises BadInputError where that run has no model, or one that this run's model cannot begin with.
    """
    folder = config.training.init_from
    if folder is None:
        return None
    try:
        run = load_trained_run(RunFolder(Path(folder)))
    except BadInputError as error:
        raise BadInputError(
            f"training.init_from: {error}; train that run first, or give training.init_from=null"
        ) from None
    was = run.model.config
    facts = [(f"model.{name}", getattr(was.model, name), getattr(config.model, name)) for name in _SHAPE]
    facts.append(("data.tokenizer", was.data.tokenizer, config.data.tokenizer))
    differing = [f"{key} {before}, came {now}" for key, before, now in facts if before != now]
    if differing:
        raise BadInputError(f"training.init_from: {folder}: expected its own {'; '.join(differing)}")
    if config.data.both_directions and not isinstance(run.vocabularies, BidirectionalSubwords):
        raise BadInputError(
            f"training.init_from: {folder}: expected a run with data.both_directions, as this one has it; "
            "came one whose vocabulary cannot say into which language"
        )
    return run
