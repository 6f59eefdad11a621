#!/usr/bin/env python3
"""Makes the fixtures of models that read documents, listed in goldens_documents.list: tiny models under tests/fixtures/models, and, with processors, tokenizers and what
transformers' pipeline answers, under tests/fixtures/seeing.

    python3 tests/goldens/make_document_goldens.py [name ...]      needs torchvision and Pillow beside requirements.txt
"""
import json
import sys

import tiny_models
import torch
import transformers as T
from make_seeing_goldens import FIXTURES, load, paths, save, write
from make_vision_goldens import HIDDEN, case, pixels
from safetensors.torch import save_file
from tiny_models import seed
from transformers.image_utils import load_image

PAGES = [f"image/pictures/{n}" for n in ("rgb.png", "turned_6.jpg", "grey_alpha.png")]


# ---- LayoutLMv3 ----

LAYOUT = dict(vocab_size=71, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37, max_position_embeddings=26, coordinate_size=4, shape_size=4,
              max_2d_position_embeddings=1024, rel_pos_bins=8, max_rel_pos=11, rel_2d_pos_bins=10, max_rel_2d_pos=300, input_size=20, patch_size=5)


def page(name, lengths, vocab=71, left=False, side=20, channels=3, picture=True, text=True):
    """Words in boxes with padding, as the tokenizer pads: boxes of 0."""
    seed(name)
    width = max(lengths)
    ids, mask = torch.randint(3, vocab, (len(lengths), width)), torch.ones(len(lengths), width, dtype=torch.long)
    corner, size = torch.randint(0, 700, (len(lengths), width, 2)), torch.randint(0, 324, (len(lengths), width, 2))
    boxes = torch.cat([corner, corner + size], -1)
    for row, n in enumerate(lengths):
        hidden = slice(0, width - n) if left else slice(n, width)
        ids[row, hidden], mask[row, hidden], boxes[row, hidden] = 1, 0, 0
    return {**({"input_ids": ids, "bbox": boxes, "attention_mask": mask} if text else {}), **({"pixel_values": torch.randn(len(lengths), channels, side, side)} if picture else {})}


def layoutlmv3_fixtures():
    heads = ["LayoutLMv3ForSequenceClassification", "LayoutLMv3ForTokenClassification", "LayoutLMv3ForQuestionAnswering"]
    both, words, seen = page("both", [9, 5, 7]), page("words", [6, 11], picture=False), page("seen", [1, 1], text=False)
    places = {k: v for k, v in page("places", [8]).items() if k != "attention_mask"}
    places = {**places, "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1, 0, 1]]), "position_ids": torch.tensor([[3, 2, 20, 4, 5, 9, 9, 1]])}
    yield "layoutlmv3", dict(config=T.LayoutLMv3Config(**LAYOUT), cases=[case("LayoutLMv3Model", "both", both, args=HIDDEN), case("LayoutLMv3Model", "words", words, args=HIDDEN),
                             case("LayoutLMv3Model", "seen", seen), case("LayoutLMv3Model", "places", places), case("LayoutLMv3Model", "left", page("left", [4, 7], left=True)),
                             *[case(h, "both", both) for h in heads], *[case(h, "words", words) for h in heads], case(heads[0], "seen", seen),
                             case(heads[2], "plain", {"input_ids": words["input_ids"][1:]})])
    odd = {**LAYOUT, "hidden_size": 18, "num_attention_heads": 2, "coordinate_size": 3, "shape_size": 3, "max_2d_position_embeddings": 1030, "type_vocab_size": 3, "num_channels": 1,
           "input_size": 23, "patch_size": 6, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "pad_token_id": 0, "rel_pos_bins": 9, "max_rel_pos": 7, "rel_2d_pos_bins": 64,
           "max_rel_2d_pos": 256, "num_hidden_layers": 1, "id2label": {i: f"kind {i}" for i in range(11)}}
    small = page("odd", [7, 3], side=23, channels=1)
    small["input_ids"][1, 3:] = 0
    yield "layoutlmv3_odd", dict(config=T.LayoutLMv3Config(**odd), cases=[case("LayoutLMv3ForTokenClassification", "both", small)], dtype=torch.float16)
    short = {**LAYOUT, "num_hidden_layers": 1}
    yield "layoutlmv3_row_bias", dict(config=T.LayoutLMv3Config(**short, has_spatial_attention_bias=False), cases=[case("LayoutLMv3ForQuestionAnswering", "both", both)],
                                      dtype=torch.bfloat16)
    yield "layoutlmv3_no_bias", dict(config=T.LayoutLMv3Config(**short, has_relative_attention_bias=False), cases=[case("LayoutLMv3ForQuestionAnswering", "both", both)],
                                     dtype=torch.float16)
    yield "layoutlmv3_text", dict(config=T.LayoutLMv3Config(**short, visual_embed=False), cases=[case("LayoutLMv3ForTokenClassification", "words", words)], dtype=torch.float16)
    yield "layoutlmv3_visual", dict(config=T.LayoutLMv3Config(**short, text_embed=False), cases=[case("LayoutLMv3ForSequenceClassification", "seen", seen)], dtype=torch.float16)


BILL = ("Invoice no. 12-b Acme Stores, 5 High Street Total: \u20ac 31.50 paid on 3 May 2024 by card; thank you! Items: tea 2 x 3.25, cakes 5.00 and a "
        "very-long-word-that-is-cut caf\u00e9").split()


def layout_tokenizer():
    """Byte BPE of few merges, trained on the page's own words, so that words are cut in several tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.train_from_iterator([" ".join(BILL)] * 3, trainers.BpeTrainer(vocab_size=330, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    model = json.loads(t.to_str())["model"]
    return T.LayoutLMv3Tokenizer(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], model_max_length=64)


def layout_page(count):
    return [(w, [20 + 90 * (i % 10), 40 + 60 * (i // 10), min(20 + 90 * (i % 10) + 8 * len(w), 1000), 75 + 60 * (i // 10)]) for i, w in enumerate(BILL[:count])]


def layout_qa(name):
    tokens = layout_tokenizer()
    config = T.LayoutLMv3Config(**{**LAYOUT, "vocab_size": len(tokens), "max_position_embeddings": 66, "pad_token_id": 1})
    model = T.LayoutLMv3ForQuestionAnswering(config)
    processor = T.LayoutLMv3Processor(T.LayoutLMv3ImageProcessor(size={"height": 20, "width": 20}, apply_ocr=False), tokens)
    directory = save(name, model, processor)
    model = load(directory, T.LayoutLMv3ForQuestionAnswering)
    run = T.pipeline("document-question-answering", model=model, tokenizer=tokens, device="cpu")
    cases = []
    for question, words, how in (("What is the total?", layout_page(20), {}), ("who  was paid", layout_page(len(BILL)), {"top_k": 4}),
                                 ("When?", layout_page(len(BILL)), {"top_k": 5, "max_answer_len": 3, "doc_stride": 9, "max_seq_len": 40}),
                                 ("caf\u00e9 or tea?", layout_page(9), {"top_k": 3, "handle_impossible_answer": True})):
        cases.append({"question": question, "word_boxes": words, "how": how, "want": run({"question": question, "word_boxes": words}, **how)})
    looks = []
    for page in PAGES[:2]:
        words = layout_page(12)
        inputs = processor(load_image(str(FIXTURES / page)), "What is the total?", [w for w, _ in words], boxes=[b for _, b in words], return_tensors="pt")
        with torch.no_grad():
            out = model(**inputs)
        n = inputs["input_ids"].shape[1]
        encoding = tokens(["What is the total?"], [[w for w, _ in words]], boxes=[[b for _, b in words]])
        inside = torch.tensor([[s == 1 for s in encoding.sequence_ids(0)]])
        start, end = (torch.where(inside, x[:, :n], torch.tensor(-10000.0)) for x in (out.start_logits, out.end_logits))
        inside[0, 0] = True  # [CLS] takes part in the softmax, and then is put aside
        start[0, 0], end[0, 0] = out.start_logits[0, 0], out.end_logits[0, 0]
        start, end = start.softmax(-1)[0], end.softmax(-1)[0]
        start[0] = end[0] = 0
        scores = torch.outer(start, end).triu().tril(14)
        s, e = divmod(int(scores.argmax()), n)
        ids = encoding.word_ids(0)
        looks.append({"file": page, "question": "What is the total?", "word_boxes": words,
                      "want": [{"score": float(scores[s, e]), "answer": " ".join(w for w, _ in words[ids[s]:ids[e] + 1]), "start": ids[s], "end": ids[e]}]})
    write(directory, cases=cases, looks=looks)
    return []


# ---- Donut ----

SWIN = dict(image_size=[44, 36], patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=3)


def donut_swin_fixtures():
    yield "donut_swin", dict(config=T.DonutSwinConfig(**SWIN, id2label={i: f"page {i}" for i in range(5)}),
                             cases=[case("DonutSwinModel", "batch", pixels("a", 2, 3, 44, 36), args=HIDDEN), case("DonutSwinModel", "other", pixels("b", 1, 3, 27, 49)),
                                    case("DonutSwinForImageClassification", "batch", pixels("a", 2, 3, 44, 36))])
    odd = T.DonutSwinConfig(image_size=30, patch_size=[3, 2], num_channels=1, embed_dim=6, depths=[1, 2], num_heads=[1, 3], window_size=4, mlp_ratio=1.5, qkv_bias=False,
                            hidden_act="gelu_new", layer_norm_eps=1e-3)
    yield "donut_swin_odd", dict(config=odd, cases=[case("DonutSwinForImageClassification", "batch", pixels("o", 3, 1, 30, 30))], dtype=torch.float16)


MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>", "<yes/>", "<s_items>", "</s_items>", "<s_name>", "</s_name>", "<sep/>", "<s_cord>")
TASK = "<s_docvqa><s_question>{}</s_question><s_answer>"
ASKED = ["What is red?", "Who?", "how many trees"]
SAID = [["a tree", "two", "12.5 %"], ["no one", "", "<yes/>"], ["sky\u00e9", "one two", "red"]]  # by page and question
LISTED = ["<s_items><s_name> red</s_name><sep/><s_name> two</s_name></s_items>", "<s_name> sky</s_name>", "<s_items><s_name> a<sep/> one</s_name></s_items>"]


def pages_tokenizer():
    """XLM-R's pieces over few words, with Donut's marks among the added tokens."""
    pieces = ["\u2581" + w for w in "what is red who how many trees tree a no one two sky".split()] + list("abcdefghijklmnopqrstuvwxyz\u00e9?.%0123456789W") + ["\u2581", "tr", "ee", "12"]
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(p, -1.0 - i / 16) for i, p in enumerate(pieces)] + [("<mask>", 0.0)]
    t = T.XLMRobertaTokenizer(vocab=vocab)
    t.add_tokens(list(MARKS))
    return t


def composite(size, projects):
    encoder = T.DonutSwinConfig(image_size=size, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=3)
    decoder = T.MBartConfig(vocab_size=80, d_model=24 if projects else 16, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=33, max_position_embeddings=48, is_decoder=True,
                            add_cross_attention=True, scale_embedding=projects, activation_function="relu" if projects else "gelu")
    model = T.VisionEncoderDecoderModel(T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder))
    return model


def learn(model, processor, examples):
    """Few steps of Adam: the model knows (page, prompt, answer) by heart, so that no answer hangs on rounding."""
    tokens = processor.tokenizer
    torch.manual_seed(7)
    pictures = processor.image_processor([load_image(p) for p in paths([e[0] for e in examples])], return_tensors="pt").pixel_values
    rows = [(tokens(e[1], add_special_tokens=False).input_ids, tokens(e[2], add_special_tokens=False).input_ids + [tokens.eos_token_id]) for e in examples]
    width = max(len(a) + len(b) for a, b in rows)
    ids, labels = torch.full((len(rows), width), tokens.pad_token_id), torch.full((len(rows), width), -100)
    for i, (a, b) in enumerate(rows):
        ids[i, :len(a) + len(b)] = torch.tensor(a + b)
        labels[i, len(a):len(a) + len(b)] = torch.tensor(b)
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 900)
    for step in range(900):
        logits = model(pixel_values=pictures, decoder_input_ids=ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        adam.zero_grad()
        loss.backward()
        adam.step()
        slower.step()
        if loss.item() < 2e-3:
            break
    assert loss.item() < 0.06, loss.item()
    model.eval()


def donut_forward(directory, model, size):
    torch.manual_seed(5)
    inputs = {"pixel_values": torch.randn(2, 3, *size), "decoder_input_ids": torch.randint(4, 80, (2, 6)), "decoder_attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2])}
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    tensors = {f"in.{k}": v for k, v in inputs.items()} | {"out.logits": out.logits, "out.encoder_last_hidden_state": out.encoder_last_hidden_state, "mask.logits": inputs["decoder_attention_mask"]}
    tensors |= {f"out.encoder_hidden_states.{i}": x for i, x in enumerate(out.encoder_hidden_states)}
    file = "golden.VisionEncoderDecoderModel.forward.safetensors"
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": json.dumps({"output_hidden_states": True})})
    return f"../seeing/{directory.name} {file} VisionEncoderDecoderModel"


def donut_generate(directory, model, inputs):
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=10, do_sample=False)
    file = "golden.VisionEncoderDecoderModel.greedy.safetensors"
    save_file({f"in.{k}": v.contiguous().clone() for k, v in inputs.items()} | {"out.sequences": out}, directory / file,
              metadata={"mode": "generate", "max_new_tokens": "10", "args": json.dumps({"pad_token_id": 1})})
    return f"../seeing/{directory.name} {file} VisionEncoderDecoderModel"


def donut(name, projects=False):
    size = (44, 36)
    tokens = pages_tokenizer()
    assert len(tokens) <= 80, len(tokens)
    images = T.DonutImageProcessor(size={"height": size[0], "width": size[1]}, do_align_long_axis=True)
    processor = T.DonutProcessor(images, tokens)
    model = composite(size, projects)
    start = tokens.convert_tokens_to_ids("<s_cord>")
    model.config.decoder_start_token_id, model.config.pad_token_id, model.config.eos_token_id = start, 1, 2
    model.generation_config = T.GenerationConfig(decoder_start_token_id=start, pad_token_id=1, eos_token_id=2, bos_token_id=0, **({} if projects else {"max_length": 40}))
    directory = save(name, model, processor)
    examples = [(page, TASK.format(q), a + "</s_answer>") for page, said in zip(PAGES, SAID) for q, a in zip(ASKED, said)]
    examples += [(page, "<s_cord>", text) for page, text in zip(PAGES, LISTED)]
    learn(model, processor, examples)
    model.save_pretrained(directory)
    model = load(directory, T.VisionEncoderDecoderModel)
    run = T.pipeline("document-question-answering", model=model, tokenizer=tokens, image_processor=images, device="cpu")
    cases = [{"file": page, "question": q, "want": run(image=str(FIXTURES / page), question=q)} for page in PAGES for q in ASKED]
    assert len({json.dumps(c["want"]) for c in cases}) > 6, cases
    read = []
    for page in PAGES:
        seen = images(load_image(str(FIXTURES / page)), return_tensors="pt").pixel_values
        with torch.no_grad():
            out = model.generate(seen, max_new_tokens=20, do_sample=False)
        text = tokens.batch_decode(out)[0].replace(tokens.eos_token, "").replace(tokens.pad_token, "")
        read.append({"file": page, "text": text, "want": processor.token2json(text)})
    write(directory, cases=cases, read=read, json=[{"text": t, "want": processor.token2json(t)} for t in TREES])
    asked = {"pixel_values": torch.cat([images(load_image(str(FIXTURES / PAGES[i])), return_tensors="pt").pixel_values for i in (0, 2)]),
             "decoder_input_ids": torch.cat([tokens(TASK.format(ASKED[0]), add_special_tokens=False, return_tensors="pt").input_ids] * 2)}
    return [donut_forward(directory, model, size), donut_generate(directory, model, asked)]


# What token2json makes of texts that are well formed and not.
TREES = ["", "plain words", "<s_a>x</s_a>", "<s_a> x <sep/> y </s_a><s_b></s_b>", "<s_a><s_b>1</s_b><sep/><s_b>2</s_b></s_a>", "<s_a><s_b>1</s_b><s_c>2</s_c></s_a>tail",
         "<s_a>open <s_b>2</s_b>", "<s_a>1</s_a><sep/><s_a>2</s_a>", "<S_A>x</s_a>", "<s_a><yes/></s_a>", "<s_a><no/></s_a>", "<s_a>x</s_a> <s_a>y</s_a>", "</s_a><s_a>z</s_a>", "<s_",
         "<s_a.b>1</s_a.b><s_aXb>2</s_aXb>", "<s_a><s_b></s_b></s_a>", "a<s_a>1\n2</s_a>b", "<s_>v</s_>", "<s_a><s_a>1</s_a></s_a>", "<s_a>\u00e9<sep/></s_a><s_c>3</s_c>"]


def main(wanted):
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    listing = FIXTURES / "models" / "goldens_documents.list"
    kinds = {"layoutlmv3_qa": layout_qa, "donut": donut, "donut_projected": lambda n: donut(n, True)}
    tiny_models.run([donut_swin_fixtures, layoutlmv3_fixtures], listing.name, wanted or ["donut_swin", "layoutlmv3"])
    lines = listing.read_text().splitlines() if listing.exists() else []
    for name, make in kinds.items():
        if not wanted or name in wanted:
            lines = [l for l in lines if l and l.split()[0] != f"../seeing/{name}"] + make(name)
            listing.write_text("\n".join(sorted(lines)) + "\n")
            print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
