import corpus


def test_the_corpus_is_a_folder_or_absent():
    assert corpus.CORPUS.is_dir() or corpus.artifacts("recordings") == []
