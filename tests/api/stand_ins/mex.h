/* Declarations of the functions of MATLAB that gateways call. */
#ifndef STAND_IN_MEX_H
#define STAND_IN_MEX_H
#include <stddef.h>
typedef struct mxArray mxArray;
typedef enum { mxDOUBLE_CLASS = 6, mxSINGLE_CLASS = 7 } mxClassID;
typedef enum { mxREAL, mxCOMPLEX } mxComplexity;
int mxIsDouble(const mxArray *array);
int mxIsSingle(const mxArray *array);
int mxIsComplex(const mxArray *array);
size_t mxGetNumberOfElements(const mxArray *array);
void *mxGetData(const mxArray *array);
mxArray *mxCreateNumericMatrix(size_t m, size_t n, mxClassID kind, mxComplexity complexity);
void mexErrMsgIdAndTxt(const char *identifier, const char *text, ...);
void mexFunction(int nlhs, mxArray *plhs[], int nrhs, const mxArray *prhs[]);
#endif
