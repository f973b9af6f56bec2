from kinesym.gait.checks import Check
def check_plates(segments,kinematics,plates,shared):
    return Check(())
