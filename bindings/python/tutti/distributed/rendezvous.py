"""torch.distributed.rendezvous: how processes find each other by a URL. The function of that name is in it."""

from tutti.distributed.rendezvous_handlers import register_rendezvous_handler, rendezvous

__all__ = ["register_rendezvous_handler", "rendezvous"]
