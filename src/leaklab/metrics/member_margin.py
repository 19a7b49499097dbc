"""What the pictures in an update have of the client itself: how much nearer they come to it than to others."""

from dataclasses import dataclass

from leaklab.metrics.nearest_member import NearestMember


@dataclass(frozen=True)
class MemberMargin(NearestMember):
    """PSNR of the nearest member less that of the nearest stranger, in dB; see ``NearestMember``."""

    margin: bool = True


PLUGIN = MemberMargin
