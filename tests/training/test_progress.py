from pnca.training.progress import progress_bar
from training.quadratic import run


def test_train__is_quiet_without_a_progress_bar(capsys):
    run(max_epochs=2)
    assert capsys.readouterr().out == ""


def test_progress_bar__shows_caption_epochs_and_loss(capsys):
    run(max_epochs=2, wrappers=[progress_bar("my model")])
    shown = capsys.readouterr().out
    assert "my model" in shown
    assert "2/2" in shown
    assert "loss" in shown
    assert "accuracy 1.000" in shown
