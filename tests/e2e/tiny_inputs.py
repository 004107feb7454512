"""Small made-up inputs for tests of whole pipelines: web pages in three languages, questions and preference pairs."""
import json
import random

# Enough different words that no page repeats itself, and common ones that show the language.
WORDS = {
    "en": ("the a this every some that".split(),
           "server network package kernel user system window question garden letter river mountain teacher window printer "
           "driver folder disk winter summer library market bridge village story answer reader painter forest island".split(),
           "reads keeps opens finds changes follows brings carries remembers needs writes sends builds holds moves".split(),
           "with of to and that have be from under because when while after".split(),
           "old quiet small large early useful simple careful bright common several distant honest local modern".split()),
    "de": ("der die das ein eine jeder".split(),
           "Rechner Netzwerk Paket Kern Benutzer System Fenster Frage Garten Brief Fluss Berg Lehrer Drucker Treiber Ordner "
           "Platte Winter Sommer Bibliothek Markt Brücke Dorf Geschichte Antwort Leser Maler Wald Insel Straße".split(),
           "liest behält öffnet findet ändert folgt bringt trägt erinnert braucht schreibt schickt baut hält bewegt".split(),
           "mit von zu und dass haben sein aus unter weil wenn während nachdem nicht".split(),
           "alte ruhige kleine große frühe nützliche einfache sorgfältige helle häufige mehrere ferne ehrliche".split()),
    "es": ("el la este cada un una".split(),
           "servidor red paquete núcleo usuario sistema ventana pregunta jardín carta río montaña maestro impresora carpeta "
           "disco invierno verano biblioteca mercado puente pueblo historia respuesta lector pintor bosque isla calle".split(),
           "lee guarda abre encuentra cambia sigue trae lleva recuerda necesita escribe envía construye mantiene mueve".split(),
           "con de para y que tener ser desde bajo porque cuando mientras después pero".split(),
           "viejo tranquilo pequeño grande temprano útil sencillo cuidadoso claro común varios lejano honesto local".split()),
}


def tokens_of_pages(name, heldout_bytes=1000, vocabulary=400):
    """The beginning of a workflow: `@tokens` to train on, of the folder `pages`."""
    return f"""[workflow]
name = "{name}"
[stage.corpus]
kind = "curate"
inputs = {{ documents = "pages" }}
heldout_bytes = {heldout_bytes}
[stage.tokens]
kind = "tokenize"
inputs = {{ corpus = "@corpus" }}
vocabulary = {vocabulary}
"""


def sentence(draw, language):
    articles, nouns, verbs, joints, adjectives = WORDS[language]
    def phrase():
        return f"{draw.choice(articles)} {draw.choice(adjectives)} {draw.choice(nouns)}"
    text = f"{phrase()} {draw.choice(verbs)} {phrase()} {draw.choice(joints)} {phrase()} {draw.choice(verbs)} {phrase()}"
    return text[0].upper() + text[1:] + "."


def page(draw, language, number):
    """A web page: navigation and footer around an article of several paragraphs."""
    title = sentence(draw, language)
    paragraphs = "\n".join("<p>" + " ".join(sentence(draw, language) for _ in range(draw.randint(3, 6))) + "</p>"
                           for _ in range(draw.randint(4, 7)))
    return (f'<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>{title}</title></head><body>'
            f'<nav><ul><li><a href="/">Home</a></li><li><a href="/p{number + 1}">Next</a></li></ul></nav>'
            f"<main><h1>{title}</h1>\n{paragraphs}\n</main><footer><a href='/legal'>Imprint</a></footer></body></html>\n")


def write_pages(folder, seed, pages=24, languages=("en", "de", "es")):
    """pages files for each language, as folder/<language>/page-<n>.html."""
    draw = random.Random(seed)
    for language in languages:
        (folder / language).mkdir(parents=True, exist_ok=True)
        for number in range(pages):
            (folder / language / f"page-{number}.html").write_text(page(draw, language, number), encoding="utf-8")


def write_questions(folder, seed, questions=60):
    """train.jsonl, heldout.jsonl: {input, output}; pairs.jsonl, pairs-heldout.jsonl: {prompt, chosen, rejected}."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    nouns = WORDS["en"][1]
    def lines(count, make):
        return "".join(json.dumps(make(draw.choice(nouns))) + "\n" for _ in range(count))
    def instruction(noun):
        return {"input": f"Where is the {noun}?", "output": f"The {noun} is {draw.choice(['here', 'there'])}."}
    def pair(noun):
        return {"prompt": f"Where is the {noun}?", "chosen": f"The {noun} is here.",
                "rejected": f"{draw.choice(nouns)} {draw.choice(nouns)} ?"}
    (folder / "train.jsonl").write_text(lines(questions, instruction))
    (folder / "heldout.jsonl").write_text(lines(questions // 4, instruction))
    (folder / "answers.jsonl").write_text((folder / "heldout.jsonl").read_text())
    (folder / "pairs-train.jsonl").write_text(lines(questions, pair))
    (folder / "pairs.jsonl").write_text(lines(questions // 4, pair))
