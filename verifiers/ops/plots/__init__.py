"""The plots of op histories: what was not yet seen, how far behind polls were, and in which order.

Spark thins each series to what a picture can show (axes, unseen, lags, orders); the rest draws.
Nothing here has a part in a verdict, and nothing of it costs anything unless plots are asked for.
"""
