/* What a block of Simulink ends with: here the functions that it has count as used. */
void stand_in(SimStruct *S);
void stand_in(SimStruct *S) {
    mdlInitializeSizes(S);
    mdlInitializeSampleTimes(S);
    mdlInitializeConditions(S);
    mdlOutputs(S, 0);
    mdlDerivatives(S);
    mdlTerminate(S);
}
