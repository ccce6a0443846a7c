"""Builds a tiny Qwen2 model folder: a configuration and a tokenizer, no weights.

Run by the Python of the engine's own environment, which has `tokenizers`; ours need not:
``python model.py FOLDER TEXT_FILE...``. The engine fills in random weights (``--load-format
dummy``), so nothing is downloaded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2_048
CONTEXT_TOKENS = 2_048
_END = "<|endoftext|>"
_SPECIAL = (_END, "<|im_start|>", "<|im_end|>")
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: list[Path]) -> Tokenizer:
    """Return a byte-level BPE tokenizer trained on the files; every byte has a token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in texts], trainer)
    return tokenizer


def model_config(vocabulary: int, end_token: int) -> dict[str, object]:
    """Return config.json of a Qwen2 of about two million parameters.

    Small matrices but many layers: a step takes some milliseconds, as a real one does. At the pace
    of two layers the frontend, which takes half a millisecond a chunk, is all that one measures.
    """
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT_TOKENS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "vocab_size": vocabulary,
        "bos_token_id": end_token,
        "eos_token_id": end_token,
        "torch_dtype": "bfloat16",
    }


def build(folder: Path, texts: list[Path]) -> None:
    """Write config.json, tokenizer.json and tokenizer_config.json into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    end_token = int(tokenizer.token_to_id(_END))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _END,
        "eos_token": _END,
        "pad_token": _END,
        "model_max_length": CONTEXT_TOKENS,
        "chat_template": _CHAT_TEMPLATE,
    }
    _write(folder / "tokenizer_config.json", settings)
    # Written last: its presence is what tells a later run that the folder is complete.
    _write(folder / "config.json", model_config(tokenizer.get_vocab_size(), end_token))


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
