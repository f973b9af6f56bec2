"""Folders as OpenCap and Pose2Sim lay them out."""

import gzip

import pytest

from kinesym.gait import find_files, read_mot

MOTION = "Coordinates\nversion=1\ninDegrees=yes\nendheader\ntime\tpelvis_tx\n0\t1\n1\t2\n"
FORCES = "grf\nversion=1\nendheader\ntime\tR_ground_force_vx\tR_ground_force_vy\n0\t1\t2\n"
LOADS = "id\nversion=1\nendheader\ntime\tpelvis_tx_force\tknee_angle_r_moment\n0\t1\t2\n"


def folder(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = text.encode()
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return root


def test_a_session_of_opencap(tmp_path):
    """The layout of stanfordnmbl/opencap-processing, and its metadata."""
    about = "gender_mf: m\nheight_m: 1.86\nmass_kg: 83.0\nsubjectID: sdu_benchmark\n"
    found = find_files(
        folder(
            tmp_path,
            {
                "sessionMetadata.yaml": about,
                "MarkerData/walk.trc": "",
                "MarkerData/neutral.trc": "",
                "OpenSimData/Kinematics/walk.mot": MOTION,
                "OpenSimData/Model/Lai_scaled.osim": "",
                "ForceData/walk_forces.mot.gz": FORCES,
                "Videos/Cam0/neutral.mp4": "",
                "OpenSimData/Dynamics/walk_id.sto": LOADS,
            },
        )
    )
    assert list(found.markers) == ["neutral", "walk"]
    assert list(found.motions) == ["walk_id", "walk"] and list(found.forces) == ["walk_forces"]
    assert list(found.models) == ["Lai_scaled"]
    assert (found.mass, found.stature) == (83.0, 1.86)
    assert read_mot(found.motions["walk"]).degrees
    assert str(found).splitlines()[:2] == [
        "session: mass 83.0 kg, stature 1.86 m",
        "  markers  neutral, walk",
    ]


def test_a_session_of_pose2sim(tmp_path):
    """Trials in folders of their own; the height is found from the video there."""
    about = "[project]\nparticipant_height = 'auto' # or 1.72\nparticipant_mass = 70.0   # float\n"
    found = find_files(
        folder(
            tmp_path,
            {
                "Config.toml": about,
                "Trial_1/Config.toml": "[project]\n# participant_mass = 60.0\n",
                "Trial_1/pose-3d/Trial_1_0-100.trc": "",
                "Trial_1/pose-3d/Trial_1_0-100_filt_butterworth.trc": "",
                "Trial_1/kinematics/scaled.osim": "",
                "Trial_2/kinematics/scaled.osim": "",
            },
        )
    )
    assert list(found.markers) == ["Trial_1_0-100", "Trial_1_0-100_filt_butterworth"]
    assert list(found.models) == ["Trial_1/kinematics/scaled", "Trial_2/kinematics/scaled"]
    assert (found.mass, found.stature) == (70.0, None)
    trial = find_files(tmp_path / "Trial_1")
    assert trial.mass == 70.0  # from the folder above


def test_folders_without_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        find_files(tmp_path / "none")
    with pytest.raises(ValueError, match="holds no file of markers, motions, forces or models"):
        find_files(tmp_path)
