"""Names and numbers as people write them elsewhere: they work, or one sentence says what to write."""

from __future__ import annotations

from contextlib import closing

import pytest

from rookery import foreign_names, foreign_options
from rookery.cli.main import build_parser, main
from rookery.config import user_config
from rookery.config.fields import fields
from rookery.errors import OptionError, RookeryError


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("--lr 0.01", "learning_rate", 0.01),
        ("--algo ppo", "learner", "ppo"),
        ("--algorithm sac", "learner", "sac"),
        ("--n-envs 4", "num_envs", 4),
        ("--total-timesteps 1e6", "steps", 1e6),
    ],
)
def test_flags_of_other_programs_are_flags_here(words, key, value):
    options = build_parser("train").parse_args(["train", "CartPole-v1", *words.split()])
    assert getattr(options, key) == value


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("1k", 1_000),
        ("500K", 500_000),
        ("1m", 10**6),
        ("2.5M", 2_500_000),
        ("1b", 10**9),
        ("7", 7),
        ("1,024", 1_024),
        ("10 000", 10_000),
    ],
)
def test_numbers_may_be_written_in_thousands_and_millions(text, steps):
    assert user_config("CartPole-v1", [f"steps={text}"]).steps == steps


@pytest.mark.parametrize("text", ["1kk", "k", "1.0001k", "-1k", "1g"])
def test_what_is_no_number_of_steps_is_refused(text):
    with pytest.raises(Exception, match="steps"):
        user_config("CartPole-v1", [f"steps={text}"])


# What people who know another library write, where it comes from, and what the answer says to write instead. Texts that
# begin with "rookery" are typed in the shell, all others in Python, where `agent`, `result`, `envs` and `env` exist.
MISTAKES = [
    ("SB3", 'rookery.PPO("MlpPolicy", env)', "rookery.train(env, learner="),
    ("SB3", 'rookery.PPO(policy="MlpPolicy", env=env, verbose=1)', "rookery.train(env, learner="),
    ("SB3", 'rookery.SAC.load("model")', "rookery.load(run_or_folder)"),
    ("SB3", "agent.learn(total_timesteps=1_000)", "rookery.train(env, learner="),
    ("SB3", "agent.set_env(env)", "an agent has no env"),
    ("SB3", "result.predict([0.0])", "result.agent.predict(observation)"),
    ("SB3", 'result.save("model")', "result.agent.save("),
    ("SB3", "from rookery import VecNormalize", "normalise_observations=True"),
    ("SB3", "from rookery import EvalCallback, CheckpointCallback", "part of every run"),
    ("SB3", "rookery.DummyVecEnv([lambda: env])", "rookery.make_vec(env, 8)"),
    ("SB3", "rookery.SubProcVecEnv", "rookery.make_vec(env, 8)"),
    ("SB3", 'rookery.make_vec_env("CartPole-v1", n_envs=4)', "rookery.make_vec(env, 8)"),
    ("SB3", "rookery.evaluate_policy(agent, env)", "rookery.evaluate(agent_or_run"),
    ("SB3", "rookery.A2C", "rookery has PPO, SAC, DQN, TD3 and PQN"),
    ("SB3", 'rookery.load("model.zip")', "rookery import-sb3 model.zip"),
    ("SB3", 'rookery.train("MlpPolicy", steps=64)', "networks follow from the spaces"),
    ("SB3", 'rookery.train("CartPole-v1", policy="MlpPolicy")', "`ppo.hidden`"),
    ("SB3", 'rookery.train("CartPole-v1", callback=None or 3)', "`callbacks`"),
    ("SB3", 'rookery.train("CartPole-v1", tensorboard_log="logs")', "writes TensorBoard files"),
    ("SB3", 'rookery.train("CartPole-v1", learner="DDPG")', '"td3"'),
    ("SB3", 'rookery.train("CartPole-v1", use_sde=True)', '`noise` = "pink"'),
    ("SB3", 'rookery.train("Pendulum-v1", action_noise=1)', "Ornstein-Uhlenbeck"),
    ("SB3", "rookery.OrnsteinUhlenbeckActionNoise", 'noise="pink"'),
    ("SB3", 'rookery.train("CartPole-v1", policy_kwargs={"optimizer_class": 1})', "the optimizer is Adam"),
    ("SB3", "envs.env_method('reset')", "envs.call(name"),
    ("RL Zoo", "rookery train --algo ppo --env CartPole-v1", "the world comes first"),
    ("RL Zoo", "rookery train CartPole-v1 -n 1000", "--steps"),
    ("RL Zoo", "rookery train CartPole-v1 --eval-freqs 100", "--eval-freq-steps"),
    ("RL Zoo", "rookery train CartPole-v1 --tensorboard-log logs", "writes TensorBoard files"),
    ("RL Zoo", "rookery train CartPole-v1 --hyperparams n_steps:8", "--set KEY=VALUE"),
    ("RL Zoo", "rookery enjoy --algo ppo", "did you mean watch"),
    ("RL Zoo", "rookery train CartPole-v1 --optimize", "rookery search"),
    ("CleanRL", "rookery train --env-id CartPole-v1", "the world comes first"),
    ("CleanRL", "rookery train CartPole-v1 --ent-coef 0.01", "--set ent_coef=VALUE"),
    ("CleanRL", "rookery train CartPole-v1 --n-steps 64", "--set n_steps=VALUE"),
    ("CleanRL", "rookery train CartPole-v1 --clip 0.1", "--set ppo.clip=VALUE"),
    ("CleanRL", "rookery train CartPole-v1 --capture-video", "write --video"),
    ("CleanRL", "rookery train CartPole-v1 --torch-deterministic", "omit it"),
    ("CleanRL", "rookery train CartPole-v1 --wandb-project-name x", "--set monitor.wandb=true"),
    ("CleanRL", "rookery train CartPole-v1 --clip-vloss", "--set ppo.clip_values="),
    ("CleanRL", "rookery train CartPole-v1 --learner c51", '"dqn"'),
    ("RLlib", 'rookery.train("CartPole-v1", train_batch_size=4_000)', "`ppo.rollout_length`"),
    ("RLlib", 'rookery.train("CartPole-v1", num_rollout_workers=4)', "`num_envs`"),
    ("RLlib", 'rookery.train("CartPole-v1", config={"lr": 1e-3})', "give its keys themselves"),
    ("RLlib", 'rookery.train("CartPole-v1", framework="torch")', "omit it"),
    ("RLlib", 'rookery.train("CartPole-v1", model={"fcnet_hiddens": [8]})', "`ppo.hidden`"),
    ("RLlib", 'rookery.train("CartPole-v1", entropy_coef_schedule=3)', "did you mean"),
    ("RLlib", "agent.compute_single_action([0.0])", "agent.act(observation"),
    ("RLlib", "rookery.PPOConfig()", "rookery.train(env"),
    ("RLlib", "rookery train CartPole-v1 --algo IMPALA", '"ppo"'),
    ("Sample Factory", "rookery train CartPole-v1 --algo APPO", '"ppo"'),
    ("Sample Factory", "rookery train CartPole-v1 --train_for_env_steps 1000", "--steps"),
    ("Sample Factory", "rookery train CartPole-v1 --num_workers 4", "use --num-envs"),
    ("Sample Factory", "rookery train CartPole-v1 --normalize_input True", "--set normalize_input=true"),
    ("Sample Factory", "rookery train CartPole-v1 --use_rnn True", "--set ppo.recurrent=256"),
    ("Sample Factory", "rookery train CartPole-v1 --num_envs 4", "write --num-envs"),
    ("Sample Factory", "rookery.run_rl()", "rookery.train(env"),
    ("Gymnasium", 'rookery.make("CartPole-v1")', "import gymnasium as gym"),
    ("Gymnasium", "envs.seed(3)", "envs.reset(seed=1)"),
    ("Gymnasium", 'rookery.make_vec("CartPole-v1", 2, vectorization_mode="async")', 'backend="process"'),
    ("Gymnasium", 'rookery.make_vec("CartPole-v1", 2, render_mode="human")', "env_kwargs"),
    ("Gymnasium", 'rookery.make_vec("CartPole-v1", num_env=2)', "num_envs"),
    ("Gymnasium", 'rookery.make_vec("Cartpole-v1", 2)', "CartPole-v1"),
    ("Gymnasium", 'rookery.make_vec("CartPole-v1", 2, seed=3)', "envs.reset(seed=1)"),
    ("Gymnasium", 'rookery.train("Cartpole-v1", steps=64)', "did you mean CartPole-v1"),
    ("Gymnasium", 'rookery.train("Pong-v4", steps=64)', "PongNoFrameskip-v4"),
    ("Gymnasium", 'rookery.train("breakout", steps=64)', "ale-py"),
    ("Gymnasium", "rookery train CartPole-v1 --render-mode human", "rookery watch"),
    ("Gymnasium", 'rookery.train("CartPole-v1", render_mode="human")', "rookery watch"),
    ("SB3", 'rookery.train("MlpPolicy", env)', "give the others by name"),
    ("SB3", "rookery.evaluate(agent, n_eval_episodes=3)", "episodes=20"),
    ("SB3", 'rookery.load("latest", env=env)', "an agent needs no env"),
    ("SB3", 'rookery.train("CartPole-v1", best_model_save_path="x")', "in the run's folder"),
    ("SB3", 'rookery.train("CartPole-v1", reward_threshold=200)', "`evaluation.stop_at` = 200"),
    ("SB3", "agent.get_parameters()", "agent.policy"),
    ("typing", 'rookery.train("CartPole-v1", 1_000)', "give the others by name"),
    ("typing", 'rookery.train("CartPole-v1", total_timestep=64)', "`steps`"),
    ("typing", 'rookery.train("CartPole-v1", device="gpu")', '"cuda"'),
    ("typing", 'rookery.train("CartPole-v1", backend="subproc")', '"process"'),
    ("typing", "rookery.trian", "did you mean 'train'"),
    ("typing", "agent.acts", "did you mean 'act'"),
    ("typing", "rookery list", "did you mean runs"),
    ("typing", "rookery sweep", "did you mean search"),
    ("typing", "rookery evaluate a", "did you mean eval"),
    ("typing", "rookery train CartPole-v1 --gamma 0.9", "gamma=VALUE"),
    ("SB3", "rookery train CartPole-v1 --vec-env subproc", "--backend process"),
    ("SB3", 'rookery.train("CartPole-v1", optimizer="adam")', "the optimizer is Adam"),
    ("SB3", 'rookery.train("CartPole-v1", n_stack=4)', "`wrappers`"),
    ("SB3", "rookery.make_vec([env, env])", "rookery.make_vec(env, 8)"),
    ("SB3", 'rookery.make_vec(["CartPole-v1"])', "rookery.make_vec(env, 8)"),
    ("CleanRL", 'rookery.train("CartPole-v1", num_iterations=10)', "use `steps`"),
    ("CleanRL", 'rookery.train("CartPole-v1", compile=True)', "omit it"),
    ("CleanRL", 'rookery.train("CartPole-v1", save_interval=10)', "`checkpoints.every`"),
    ("RLlib", 'rookery.train("CartPole-v1", train_batch_siz=4)', "`batch_size`"),
    ("RLlib", 'rookery.train("CartPole-v1", log_freq=10)', "omit it"),
    ("RLlib", 'rookery.train("CartPole-v1", entropy_coefficent=0.1)', "`ppo.entropy`"),
    ("Tianshou", 'rookery.train("CartPole-v1", training_num=4)', "`num_envs`"),
    ("Tianshou", 'rookery.train("CartPole-v1", test_num=4)', "`evaluation.episodes`"),
    ("Tianshou", 'rookery.train("CartPole-v1", step_per_epoch=4)', "use `steps`"),
    ("Tianshou", 'rookery.train("CartPole-v1", step_per_collect=4)', "`ppo.rollout_length`"),
    ("Tianshou", 'rookery.train("CartPole-v1", hidden_size=4)', "`hidden` = [64, 64]"),
    ("PufferLib", 'rookery.train("CartPole-v1", bptt_horizon=4)', "`ppo.rollout_length`"),
    ("PufferLib", 'rookery.make_vec("CartPole-v1", 2, zero_copy=True)', "copy=False"),
    ("EnvPool", 'rookery.train("CartPole-v1", env_type="gym")', "omit it"),
    ("EnvPool", 'rookery.train("CartPole-v1", num_threads=2)', "`num_envs`"),
    ("Gymnasium", 'rookery.make_vec("MyEnv-v0", 2)', "package:MyEnv-v0"),
    ("Gymnasium", 'rookery.make_vec("nowhere_at_all:MyEnv-v0", 2)', "there is no package nowhere_at_all"),
    ("Gymnasium", 'rookery.train("MyEnv-v0")', "my_env.py:MyEnv"),
    ("Gymnasium", 'rookery.train("CartPole-v1", wrappers=[gym.wrappers.TimeLimit], steps=64)', "return TimeLimit(env"),
    ("Gymnasium", 'rookery.make_vec("CartPole-v1", 2, wrappers=3)', "gymnasium.Wrapper class"),
    ("Gymnasium", "rookery train CartPole-v1 --wrap TimeLimit", "gymnasium.wrappers:TimeLimit"),
    ("typing", 'rookery.train("ppo")', "--learner ppo"),
    ("typing", 'rookery.train("CartPole-v1", gamma=2)', "`gamma` should be a number > 0 and <= 1"),
    ("typing", 'rookery.train("CartPole-v1", hidden_width=[8])', "did you mean `hidden`?"),
    ("typing", 'rookery.train("CartPole-v1", max_steps=64)', "did you mean `steps`?"),
    ("typing", 'rookery.train("CartPole-v1", foo=8)', "`rookery train --help-config`"),
    ("typing", 'rookery.train("CartPole-v1", data_dir="x")', "`world_options`"),
    ("RLlib", "agent.train()", "rookery.train(env, learner="),
    ("typing", "rookery.load(None)", "the name of a run"),
    ("typing", 'rookery.train("CartPole-v1", seeds=3)', "rookery.train_seeds("),
    ("typing", 'rookery.train("CartPole-v1", evaluation=False)', "a dict"),
    ("typing", 'rookery.train_seeds("CartPole-v1", seeds="abc")', "such as 5"),
    ("typing", "rookery worlds", "`rookery train` without a world"),
    ("typing", "rookery train CartPole-v1 100000", "unexpected '100000'"),
    ("CleanRL", "rookery train CartPole-v1 --cuda", "--device cuda"),
    ("typing", "rookery train CartPole-v1 Pendulum-v1", "takes one WORLD_OR_CONFIG"),
    ("typing", "rookery train CartPole-v1 --seeds 1 2 3", "each flag one value"),
    ("typing", "rookery train CartPole-v1 learning_rate=0.01", "--set learning_rate=0.01"),
    ("typing", "rookery train CartPole-v1 --set learning_rate 0.01", "--set learning_rate=0.01"),
    ("typing", "rookery train CartPole-v1 \u2014steps 64", "two hyphens"),
    ("Windows", "rookery train CartPole-v1 /steps 64", "two hyphens"),
    ("Windows", 'rookery.load(r"runs\\nothing")', "there is no run"),
    ("typing", "rookery train CartPole-v1 --gpu", "--gpu needs a value"),
    ("typing", "rookery train CartPole-v1 --cpu", "--device cpu"),
    ("typing", "rookery train CartPole-v1 --wandb", "--set monitor.wandb=true"),
    ("typing", "rookery train CartPole-v1 --tb", "writes TensorBoard files"),
    ("typing", "rookery train CartPole-v1 --silent", "--quiet"),
    ("typing", "rookery train CartPole-v1 --resume", "`rookery resume RUN`"),
    ("typing", "rookery train CartPole-v1 --overwrite", "none is overwritten"),
    ("typing", "rookery train CartPole-v1 --save-every 5", "--set checkpoints.every=50_000"),
    ("typing", "rookery train CartPole-v1 --size 4", "--set world_options.size=VALUE"),
    ("typing", "rookery train CartPole-v1 --set size=4", "`world_options.size`"),
    ("typing", "rookery train CartPole-v1 --world-options size=4", "--set world_options.NAME=VALUE"),
    ("typing", "rookery eval latest 100", "takes one RUN"),
    ("RL Zoo", "rookery eval latest --deterministic", "--stochastic"),
    ("Gymnasium", "rookery eval latest --env CartPole-v1", "--world WORLD"),
    ("typing", "rookery watch latest --save video.mp4", "--out FILE"),
    ("typing", "rookery plot latest --save curve.png", "--output FILE"),
    ("typing", "rookery plot latest --y return", "--metric NAME"),
    ("typing", "rookery report latest --pdf x", "--html FILE"),
    ("typing", "rookery runs --format json", "--json"),
    ("typing", "rookery runs -n 5", "lists all flags"),
    ("typing", "rookery tune CartPole-v1 --steps 100", "lists all flags"),
    ("Ray Tune", "rookery search CartPole-v1 --num-samples 3", "--n-trials"),
    ("W&B", "rookery search CartPole-v1 --space lr=1e-3", "search.space.learning_rate"),
    ("typing", "rookery delete latest", "`rookery runs --delete RUN`"),
    ("typing", "rookery stop latest", "Ctrl-C"),
    ("typing", "rookery version", "`rookery --version`"),
    ("typing", "rookery -V", "--version"),
    ("Hugging Face", "rookery push latest", "`rookery export RUN --card`"),
    ("Hugging Face", "rookery train https://huggingface.co/sb3/ppo-CartPole-v1", "rookery import-sb3"),
    ("Hugging Face", 'agent.push_to_hub("me/agent")', "card.md"),
    ("Hugging Face", 'rookery.load_from_hub("sb3/ppo-CartPole-v1")', "rookery.import_sb3"),
    ("Gymnasium", "rookery train dm_control/cartpole-swingup-v0", "my_file.py:make_env"),
    ("Gymnasium", 'rookery.make_vec("FetchReach-v2", 2)', "gymnasium-robotics"),
    ("Gymnasium", 'rookery.train("Breakout-v5")', "ALE/Pong-v5"),
    ("PettingZoo", 'rookery.train("connect_four_v3")', "PettingZoo"),
    ("Optuna", 'rookery.search("CartPole-v1", lr=[1e-3, 1e-4])', "space={KEY: [...]}"),
    ("Optuna", 'rookery.search("CartPole-v1", pruner="MedianPruner")', '"median"'),
    ("Optuna", "rookery.optuna.create_study()", "rookery.search("),
    ("Optuna", 'rookery.train("CartPole-v1", n_trials=3)', "rookery.search("),
    ("Optuna", 'rookery.tune("CartPole-v1", n_trials=3)', "rookery.search("),
    ("Keras", 'rookery.train("CartPole-v1", early_stopping=True)', "`evaluation.stop_at`"),
    ("CleanRL", 'rookery.train("CartPole-v1", mixed_precision=True)', "`ppo.precision`"),
    ("d3rlpy", 'rookery.train("CartPole-v1", demonstrations="x")', "rookery.clone"),
    ("PufferLib", 'rookery.train("CartPole-v1", ppo={"n_step": 64})', "`ppo.rollout_length`"),
    ("EnvPool", 'rookery.train("CartPole-v1", frame_skip=4)', "`world_options`"),
    ("typing", 'rookery.train("CartPole-v1", parallel=8)', "`num_envs`"),
    ("typing", 'rookery.train("CartPole-v1", "Pendulum-v1")', "takes one world"),
    ("typing", 'rookery.load("latest", device="gpu")', "device should be cpu, cuda"),
    ("SB3", "rookery.evaluate(agent, env)", "world=env"),
    ("typing", 'rookery.record("latest", path="x.mp4")', 'out="FILE"'),
    ("typing", 'rookery.record(agent, "x.mp4", 3)', "by name"),
    ("typing", 'rookery.record(agent, "x.mp4", fps="30")', "above 0"),
    ("W&B", 'rookery.plot("latest", smoothing=0.9)', "not smoothed again"),
    ("typing", "rookery.resume(agent)", "expected a run"),
    ("typing", "result.mean_rewards", "result.mean_reward"),
    ("RLlib", "result.get_best_result()", "result.agent"),
    ("Tianshou", "rookery.ReplayBuffer", "buffer_size"),
    ("typing", "agent.step([0])", "agent.act("),
    ("RLlib", "rookery train CartPole-v1 --checkpoint-freq 9", "--set checkpoints.every=VALUE"),
    ("RLlib", "rookery train CartPole-v1 --horizon 128", "--set horizon=VALUE"),
    ("W&B", "rookery train CartPole-v1 --notes x", "--set monitor.wandb=true"),
    ("Ray", "rookery train CartPole-v1 --distributed", "--on ray"),
    ("typing", "rookery train CartPole-v1 --eval-only", "`rookery eval RUN`"),
    ("typing", "rookery train CartPole-v1 --max-episodes 9", "--num-episodes"),
    ("typing", "rookery train CartPole-v1 --net 64,64", "lists all flags"),
    ("typing", "rookery train CartPole-v1 --set world_options.gravitty=3", "did you mean 'gravity'"),
]


@pytest.fixture(scope="module")
def names():
    """What the Python texts use."""
    import gymnasium as gym

    import rookery
    from rookery.learners.registry import make_learner, option_classes

    box, choice = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)
    agent = make_learner("ppo", box, choice, option_classes()["ppo"](), 2).agent
    fields = dict.fromkeys(rookery.Result.__dataclass_fields__)
    with closing(rookery.make_vec("CartPole-v1", 2, backend="serial")) as envs:
        yield {
            "rookery": rookery, "gym": gym, "env": gym.make("CartPole-v1"), "agent": agent, "envs": envs,
            "result": rookery.Result(**{**fields, "agent": agent}),
        }  # fmt: skip


@pytest.mark.parametrize(("library", "text", "wanted"), MISTAKES)
def test_mistakes_and_foreign_names_are_answered_with_what_to_write(library, text, wanted, names, capsys):
    """In one sentence, and before anything is trained."""
    if text.startswith("rookery "):
        assert main(text.split()[1:]) == 2
        said = capsys.readouterr().err
    else:
        with pytest.raises((RookeryError, AttributeError, ImportError)) as raised:
            exec(text, dict(names))
        said = str(raised.value)
    assert wanted in said
    assert len(said) < 700 and said.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("keywords", "key", "value"),
    [
        ({"algo": "PPO"}, "learner", "ppo"),
        ({"learner": "SAC"}, "learner", "sac"),
        ({"lr": 0.01}, "ppo.learning_rate", 0.01),
        ({"normalize_observations": True}, "ppo.normalise_observations", True),
        ({"normalise_observations": True}, "ppo.normalise_observations", True),
        ({"n_steps": 32, "learner": "ppo"}, "ppo.rollout_length", 32),
        ({"gae_lambda": 0.9}, "ppo.gae_lambda", 0.9),
        ({"entropy_coeff": 0.01}, "ppo.entropy", 0.01),
        ({"num_sgd_iter": 3}, "ppo.epochs", 3),
        ({"exploration_loss_coeff": 0.02}, "ppo.entropy", 0.02),
        ({"train_for_env_steps": 100}, "steps", 100),
        ({"env_config": {"a": 1}}, "world_options", {"a": 1}),
        ({"fcnet_hiddens": [8]}, "ppo.hidden", [8]),
        ({"clip_param": 0.3}, "ppo.clip", 0.3),
        ({"with_wandb": True}, "monitor.wandb", True),
        ({"eps_clip": 0.3}, "ppo.clip", 0.3),
        ({"repeat_per_collect": 3}, "ppo.epochs", 3),
        ({"vf_clip_coef": 0.3}, "ppo.clip_values", 0.3),
        ({"experiment_name": "a"}, "name", "a"),
    ],
)
def test_names_with_an_equal_are_taken(keywords, key, value):
    config = user_config("CartPole-v1", **keywords)
    for name in key.split("."):
        config = getattr(config, name)
    assert config == value


def test_a_learner_may_be_given_as_its_class():
    import rookery

    assert user_config("Pendulum-v1", learner=rookery.SAC).learner == "sac"


@pytest.mark.parametrize("name", ["world", "env", "env_id"])
def test_the_world_may_be_given_by_name(name):
    """Here it is unknown, and the error names it."""
    import rookery

    with pytest.raises(RookeryError, match="there is no world 'nowhere'"):
        rookery.train(**{name: "nowhere"})


@pytest.mark.parametrize(
    "written",
    ["my_maze:Maze", "my_maze.Maze", "my_maze.py:Mase", "my_maze.py::Maze", r".\my_maze.py:Maze", "my_maze.py:Maze(3)"],
)
def test_a_class_in_a_file_here_is_found_from_other_forms_of_its_name(written, tmp_path, monkeypatch):
    import rookery

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_maze.py").write_text("import gymnasium as gym\nclass Maze(gym.Env): pass\n")
    for call in (rookery.train, rookery.make_vec):
        with pytest.raises(RookeryError, match=r"did you mean (my_maze\.py:)?Maze"):
            call(written)


def test_versions_that_gymnasium_removed_mean_the_newest():
    from rookery.training.resolve.world_choice import find

    assert find("HalfCheetah-v2", False).source == "HalfCheetah-v5"


def test_no_word_that_rookery_has_is_in_the_table():
    """It would never be reached, or hide what exists."""
    import rookery

    assert not {*rookery.__all__} & {*foreign_names.PYTHON} - {"load", "evaluate", "train", "plot"}
    assert not {key for key in fields() if "." not in key} & {*foreign_options.ANSWERS, *foreign_options.RUN_KEYS}


def test_a_setting_that_is_suggested_works():
    for setting in ("gamma=0.9", "ent_coef=0.01", "n_steps=64", "ppo.clip=0.1"):
        assert user_config("CartPole-v1", [setting, "learner=ppo"])


def test_latest_is_suggested_too(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert main(["eval", "lastest", "--runs-dir", str(tmp_path)]) == 2
    assert "did you mean latest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ("--num-envs 16", "`rookery train WORLD --from RUN --set num_envs=...` begins a new run with its agent"),
        ("--n-envs 16", "--from RUN --set num_envs=..."),
        ("--seed 3", "--from RUN --set seed=..."),
        ("--device cuda", "--from RUN --set device=..."),
        ("--rollout-length 8", "--from RUN --set ppo.rollout_length=..."),
        ("--n-steps 8", "--from RUN --set ppo.rollout_length=..."),
        ("--world Acrobot-v1", "`rookery train OTHER_WORLD --from RUN`"),
        ("--world-options x", "--from RUN --set world_options.NAME=..."),
        ("--learner sac", "`rookery train WORLD --set learner=...` begins a new run without them"),
        ("--hidden 8", "`rookery train WORLD --set ppo.hidden=...` begins a new run without them"),
    ],
)
def test_a_run_that_cannot_change_names_the_way_to_a_new_one(words, way):
    with pytest.raises(OptionError, match="cannot change when a run is resumed") as raised:
        build_parser("resume").parse_args(["resume", "latest", *words.split()])
    assert way in str(raised.value)


def test_unknown_flags_of_commands_without_settings_stay_plain():
    with pytest.raises(OptionError, match="lists all flags"):
        build_parser("doctor").parse_args(["doctor", "--gamma", "1"])
